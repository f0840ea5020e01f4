import type { Webhook } from '../storage/tables/tables.ts'

/** Converts an event's body to the field names of one API version. */
type EventShape = (body: Record<string, unknown>) => Record<string, unknown>

/**
 * Returns the function that converts events of this type to an API version (null: the newest); undefined if bodies are
 * already stored with that version's field names.
 */
export type EventShapes = (type: string, version: Webhook['version']) => EventShape | undefined

export const storedShapes: EventShapes = () => undefined

/** Returns a function that looks up an event's body, as JSON text, by API version. Each conversion runs only once. */
export function bodiesOf({ type, body }: { type: string; body: string }, shapes: EventShapes) {
  const made = new Map<EventShape, string>()
  return (version: Webhook['version']): string => {
    const shape = shapes(type, version)
    if (shape === undefined) return body
    const known = made.get(shape) ?? JSON.stringify(shape(JSON.parse(body)))
    made.set(shape, known)
    return known
  }
}
