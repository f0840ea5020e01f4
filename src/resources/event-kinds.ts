import { exampleOf } from '../http/openapi-samples.ts'
import { capital, plain, type Schema } from '../http/openapi-schemas.ts'
import { audienceOf } from './announce.ts'
import type { Declaration } from './declaration.ts'
import { representation } from './show.ts'

/** A kind of event that registrations can name. */
export interface EventKind {
  description: string
  /** A body as `payloadStyle: plain` sends it. */
  example: object
  /** Of the body, where the example alone would promise too much. */
  schema?: object
  /** Who may hear of it besides the owner of what it is about: `any` registration, those with this scope, or nobody. */
  audience: string | null
}

/** The events of a resource by name: `note.created`, `note.updated`, `note.deleted`. */
export function eventKindsOf(declaration: Declaration): Record<string, EventKind> {
  const { noun, hides } = declaration
  const names = ['id', ...Object.keys(declaration.body.properties), 'createdAt', 'updatedAt']
  const shown = [...names.filter((name) => !hides?.fields.includes(name)), ...(declaration.links ? ['_links'] : [])]
  const schema = { ...(plain(representation(declaration, shown)) as Schema), required: alwaysSent(declaration, shown) }
  const example = exampleOf(schema, capital(noun)) as object
  const audience = audienceOf(declaration)
  return {
    [`${noun}.created`]: { description: `A ${noun} was created`, example, schema, audience },
    [`${noun}.updated`]: { description: `A ${noun} was changed or replaced`, example, schema, audience },
    [`${noun}.deleted`]: { description: `A ${noun} was deleted`, example: { id: 1 }, audience },
  }
}

const alwaysSent = ({ body }: Declaration, shown: readonly string[]): string[] =>
  shown.filter((name) => !Object.hasOwn(body.properties, name) || body.required?.includes(name))
