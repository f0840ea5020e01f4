import type { Webhook } from '../storage/tables/tables.ts'

/** Gives the body of an event the names of a version. */
type EventShape = (body: Record<string, unknown>) => Record<string, unknown>

/**
 * Returns the shape of an event type in an API version, or in the newest one for null; undefined if it is the one that is
 * stored.
 */
export type EventShapes = (type: string, version: Webhook['version']) => EventShape | undefined

export const storedShapes: EventShapes = () => undefined

/** Returns the function for the body of one event by version: JSON text, which is made once for each shape. */
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
