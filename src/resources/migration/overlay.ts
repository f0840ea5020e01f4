import { isDeepStrictEqual } from 'node:util'
import { type TObject, type TSchema, Type } from 'typebox'
import { inputValidator } from '../../http/policies/body-parsing.ts'
import { fromValidation } from '../../http/problems/framework-errors.ts'
import { isCanonicalUuid } from '../../http/uuid.ts'
import { maxId } from '../../storage/ids.ts'
import type { Overlay } from '../../storage/resource-tables/resource-columns.ts'
import type { Codec } from '../../storage/rows/column-codec.ts'
import type { ColumnNames } from '../../storage/rows/column-names.ts'
import { type ColumnKind, choicesOf, columnType } from '../column-types.ts'
import { defaultsOf } from '../constraints/defaults.ts'
import { decimalMagnitude } from '../decimal-fields.ts'

interface Declared {
  body: TObject
  kinds: Readonly<Record<string, ColumnKind>>
  columns: ColumnNames
  codecOf: (field: string) => Codec | undefined
}

/** Returns the requirements that a declaration places on a table that may already exist. */
export function overlayOf({ body, kinds, columns, codecOf }: Declared): Overlay {
  const fields = Object.keys(kinds)
  const schemas = body.properties as Record<string, TSchema>
  const limits = fields.map((field) => [field, limitOf(kinds[field] as ColumnKind, schemas[field] as TSchema)])
  const required = fields.filter((field) => body.required?.includes(field) && !Object.hasOwn(defaultsOf(body), field))
  const checks = fields.map(
    (field) => [field, valueCheck(kinds[field] as ColumnKind, schemas[field] as TSchema, codecOf(field))] as const,
  )
  checks.push(['createdBy', creatorCheck])
  const problemOf = (field: string, check: ReturnType<typeof valueCheck>, value: unknown) => {
    if (value !== null) return check(value)
    return required.includes(field) ? 'must have a value, because the field is required' : undefined
  }
  return {
    columns,
    limits: {
      ...Object.fromEntries(limits),
      createdBy: { length: Number.POSITIVE_INFINITY, magnitude: 0, isTime: false },
    },
    check: (cells) =>
      checks.flatMap(([field, check]) => {
        const message = field in cells ? problemOf(field, check, cells[field]) : undefined
        return message === undefined ? [] : [{ field, message }]
      }),
  }
}

/** Access rules trust the creator of a row, so the value must have the form that the service writes. */
const creatorCheck = (stored: unknown) =>
  /^(user|client):./.test(String(stored)) ? undefined : 'must be a creator such as user:7 or client:crm'

/** The maximum lengths of values, by format. */
const formatLengths: Readonly<Record<string, number>> = { date: 10, 'date-time': 24, uuid: 36, ipv4: 15, ipv6: 45 }

interface Shape {
  maxLength?: number
  format?: string
  minimum?: number
  maximum?: number
}

function limitOf(kind: ColumnKind, schema: TSchema): Overlay['limits'][string] {
  const { maxLength, format = '', minimum = 0, maximum = 0 } = schema as Shape
  const choices = choicesOf(schema) ?? []
  const length =
    kind === 'json'
      ? Number.POSITIVE_INFINITY
      : choices.length > 0
        ? Math.max(...choices.map((choice) => String(choice).length))
        : (formatLengths[format] ?? maxLength ?? Number.POSITIVE_INFINITY)
  const integers = choices.length > 0 ? choices.map(Number) : [minimum, maximum]
  const magnitude =
    kind === 'reference'
      ? maxId
      : kind === 'decimal'
        ? decimalMagnitude(schema)
        : Math.max(...integers.map((integer) => Math.abs(integer)))
  return { length, magnitude, isTime: kind === 'instant' || format === 'date' }
}

/** Returns the check of a field's stored values. The check returns an error message, or undefined for a valid value. */
function valueCheck(
  kind: ColumnKind,
  schema: TSchema,
  codec: Codec | undefined,
): (value: unknown) => string | undefined {
  const { normalize } = columnType(kind)
  const validate = inputValidator(Type.Object({ value: schema }), 'body')
  return (stored) => {
    const wrong = wrongForm(kind, stored)
    if (wrong !== undefined) return wrong
    const value = codec ? codec.decode(stored) : stored
    const sent = { value: structuredClone(value) }
    const result = validate(sent)
    if ('error' in result) return fromValidation(result.error, 'body').errors?.[0]?.message ?? 'is not valid'
    if (!isDeepStrictEqual(sent.value, value)) return 'must not begin or end with white space'
    return normalize === undefined || normalize(value) === value
      ? undefined
      : 'must be an instant in UTC with milliseconds, such as 2026-03-01T12:00:00.000Z'
  }
}

/** Returns the error in the type of a stored value; undefined if the codec can decode it. */
function wrongForm(kind: ColumnKind, stored: unknown): string | undefined {
  switch (kind) {
    case 'boolean':
      return stored === 0 || stored === 1 ? undefined : 'must be 1 or 0'
    case 'integer':
    case 'reference':
      return Number.isSafeInteger(stored) ? undefined : `must be an integer within ±${Number.MAX_SAFE_INTEGER}`
    case 'number':
      return Number.isFinite(stored) ? undefined : 'must be a number'
    case 'decimal':
      return /^-?\d+$/.test(String(stored)) ? undefined : 'must be an integer'
    case 'uuid':
      return isCanonicalUuid(stored) ? undefined : 'must be a UUID in lower case'
    case 'json':
      return isJson(stored) ? undefined : 'must be JSON text'
    default:
      return typeof stored === 'string' ? undefined : 'must be text'
  }
}

function isJson(stored: unknown): boolean {
  try {
    JSON.parse(String(stored))
    return typeof stored === 'string'
  } catch {
    return false
  }
}
