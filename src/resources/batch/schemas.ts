import { type Static, Type } from 'typebox'
import { documentedAs } from '../../http/partial-schema.ts'
import { sampleOf } from '../../openapi/examples.ts'
import { plain, type Schema, wholeOf } from '../../openapi/schemas.ts'
import type { Declaration } from '../declaration.ts'
import { idTypes } from '../id-types.ts'
import { representation } from '../representation.ts'

export const maxItems = 100

export const itemMethods = ['POST', 'PUT', 'PATCH', 'DELETE'] as const
export type ItemMethod = (typeof itemMethods)[number]

/** Returns the schema of a batch item; `collections` are those that it can write to. */
const itemOf = (collections: readonly Declaration[]) =>
  Type.Object({
    method: Type.Unsafe<ItemMethod>({
      type: 'string',
      enum: [...itemMethods],
      description: 'Create (POST), replace (PUT), change (PATCH) or delete (DELETE) a row',
    }),
    collection: Type.Unsafe<string>({
      type: 'string',
      enum: collections.map(({ name }) => name),
      description: 'The path of the collection, without slashes',
    }),
    id: Type.Optional(
      Type.Unsafe<unknown>({
        type: ['integer', 'string', 'object'],
        // Client generators support `anyOf`, but not an array of types.
        ...documentedAs({
          anyOf: [{ type: 'integer' }, { type: 'string' }, { type: 'object' }],
          description: 'The id of the row to replace, change or delete, or a reference to it',
        }),
      }),
    ),
    ifMatch: Type.Optional(
      Type.String({ maxLength: 1_000, description: 'Has the effect of the header If-Match, with its syntax' }),
    ),
    body: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description:
          'The body of a POST, PUT or PATCH. The object `{ "$ref": "0.id" }` stands for the field `id` in the result of item 0',
      }),
    ),
  })

export type BatchItem = Static<ReturnType<typeof itemOf>>

/** Returns the schema of a batch request; `collections` are those that it can write to. */
export const batchBody = (collections: readonly Declaration[]) =>
  Type.Object(
    {
      items: Type.Array(itemOf(collections), {
        minItems: 1,
        maxItems,
        description: 'The writes, in the order in which they are made',
      }),
    },
    { examples: [{ items: collections.slice(0, 1).map(exampleItem) }] },
  )

function exampleItem({ name, ids, operations, creation }: Declaration) {
  const body = operations.includes('create') ? sampleOf(plain<object>(creation) as Schema) : undefined
  return body === undefined
    ? { method: 'DELETE', collection: name, id: idTypes[ids].example }
    : { method: 'POST', collection: name, body }
}

const ItemResult = Type.Object({
  status: Type.Integer({ description: 'The status of the single request' }),
  location: Type.Optional(Type.String({ description: 'The URL of a new row' })),
  etag: Type.Optional(Type.String({ description: 'The entity tag of the row after all writes' })),
  body: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description: 'The row after all writes; absent if it no longer exists',
    }),
  ),
})

export type BatchItemResult = Static<typeof ItemResult>

export const batchResult = (collections: readonly Declaration[]) =>
  Type.Object(
    { items: Type.Array(ItemResult, { description: 'The results, in the order of the items' }) },
    { examples: [{ items: collections.slice(0, 1).map(exampleResult) }] },
  )

function exampleResult(declaration: Declaration) {
  const { path, ids, operations } = declaration
  if (!operations.includes('create')) return { status: 204 }
  const body = sampleOf(wholeOf(plain<object>(representation(declaration)) as Schema))
  return { status: 201, location: `${path}/${idTypes[ids].example}`, etag: '"1"', ...(body ? { body } : {}) }
}
