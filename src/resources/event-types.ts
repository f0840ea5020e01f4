import { exampleOf } from '../openapi/examples.ts'
import { plain, type Schema, wholeOf } from '../openapi/schemas.ts'
import type { EventKind } from '../queue/events.ts'
import { audienceOf } from './change-events.ts'
import type { Declaration } from './declaration.ts'
import { representation } from './representation.ts'

const idSchema = { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] }

/** The events of a resource by type: `note.created`, `note.updated`, `note.deleted`. */
export function eventKindsOf(declaration: Declaration): Record<string, EventKind> {
  const { noun, hides } = declaration
  const names = ['id', ...Object.keys(declaration.body.properties), 'createdAt', 'updatedAt']
  const visible = [...names.filter((name) => !hides?.fields.includes(name)), ...(declaration.links ? ['_links'] : [])]
  const { examples, ...schema } = wholeOf(plain(representation(declaration, visible)) as Schema)
  const [example = exampleOf(schema) ?? { id: 1 }] = (examples ?? []) as object[]
  const audience = audienceOf(declaration)
  return {
    [`${noun}.created`]: { description: `A ${noun} was created`, example, schema, audience },
    [`${noun}.updated`]: { description: `A ${noun} was changed or replaced`, example, schema, audience },
    [`${noun}.deleted`]: { description: `A ${noun} was deleted`, example: { id: 1 }, schema: idSchema, audience },
  }
}
