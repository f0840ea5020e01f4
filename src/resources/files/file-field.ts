import { type TObject, type TSchema, Type } from 'typebox'
import { knownTypes } from '../../files/media-types.ts'
import type { SlotLimiter } from '../../files/slots.ts'
import type { ResultStore } from '../../files/store.ts'
import { jsonPart } from '../../http/multipart.ts'

/** The options of a file field. */
export interface FileOptions {
  /** The maximum size, at most 5 GiB. */
  maxBytes: number
  /** The media types that can be stored. */
  types: readonly string[]
}

/** Where files are stored, and the limits on transfers. */
export interface FileStorage {
  store: ResultStore
  uploads: SlotLimiter
  downloads: SlotLimiter
}

/** A file field of a collection or view. */
export interface FileField extends FileOptions {
  field: string
}

const maxFileBytes = 5 * 2 ** 30

/**
 * Creates a field that stores one file per row. Clients upload and download the file at a separate URL; in the row, the
 * field contains the file's type, size and digest. The field must be optional.
 */
export function File({ maxBytes, types }: FileOptions) {
  const schema = Type.Object(
    {
      type: Type.String({ description: 'The media type', examples: [types?.[0] ?? 'application/pdf'] }),
      bytes: Type.Integer({ minimum: 0, description: 'The size', examples: [48_213] }),
      sha256: Type.String({
        description: 'The SHA-256 digest, in base64',
        examples: ['47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='],
      }),
    },
    { description: `A file of at most ${maxBytes} bytes, written at its own URL`, readOnly: true },
  )
  // Not enumerable, so that it does not appear in OpenAPI documents.
  return Object.defineProperty(schema, '~file', { value: { maxBytes, types } satisfies FileOptions })
}

/** The value of a file field in a row; the digest is in base64. */
export interface FileValue {
  type: string
  bytes: number
  sha256: string
}

const fileOf = (schema: TSchema): FileOptions | undefined => (schema as { '~file'?: FileOptions })['~file']

export const fileFieldsOf = ({ properties }: TObject): FileField[] =>
  Object.entries(properties as Record<string, TSchema>).flatMap(([field, schema]) => {
    const options = fileOf(schema)
    return options ? [{ field, ...options }] : []
  })

/** The body, and the options of `collection()` that must not name a file field. */
interface Declared {
  body: TObject
  writeOnly?: readonly string[]
  immutable?: readonly string[]
  hides?: { fields: readonly string[] } | undefined
  set?: object
  defaults?: object
}

/** Returns the errors in the file fields of a body. */
export function fileErrors(declared: Declared): string[] {
  const { body, writeOnly = [], immutable = [], hides, set = {}, defaults = {} } = declared
  const named = {
    writeOnly,
    immutable,
    hides: hides?.fields ?? [],
    set: Object.keys(set),
    defaults: Object.keys(defaults),
  }
  return fileFieldsOf(body).flatMap(({ field, maxBytes, types }) => {
    const unknown = Array.isArray(types) ? types.filter((type) => !knownTypes.includes(type)) : []
    const isSize = Number.isSafeInteger(maxBytes) && maxBytes > 0 && maxBytes <= maxFileBytes
    return [
      ...(isSize ? [] : [`the field ${field}: maxBytes must be an integer from 1 to ${maxFileBytes}`]),
      ...(Array.isArray(types) && types.length > 0
        ? []
        : [`the field ${field}: types must be a list of media types such as ['application/pdf']`]),
      ...(unknown.length > 0
        ? [`the field ${field}: types has ${unknown.join(', ')}; use ${knownTypes.join(', ')}`]
        : []),
      ...(field === jsonPart
        ? [`the field ${field}: use another name; forms have a part ${field} for the fields`]
        : []),
      ...(body.required?.includes(field)
        ? [`the field ${field} must be Type.Optional(File(…)): a row can be without the file`]
        : []),
      ...Object.entries(named)
        .filter(([, fields]) => fields.includes(field))
        .map(([option]) => `${option} cannot include ${field}: it is a file, which has its own URL`),
    ]
  })
}
