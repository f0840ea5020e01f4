import { type TSchema, Type } from 'typebox'
import {
  type DecimalForm,
  decimalError,
  decimalExample,
  decimalFormOf,
  decimalPattern,
  parseDecimal,
} from '../http/decimal.ts'
import { documentedRules } from '../http/partial-schema.ts'
import { malformedQuery } from '../http/problems/problem.ts'
import { type Codec, decimalCodec } from '../storage/rows/column-codec.ts'

/** The options of a decimal field. Decimals in options are strings too, such as `'0.05'`. */
export interface DecimalOptions {
  /** The smallest and the largest value, inclusive. */
  minimum?: string
  maximum?: string
  default?: string
  description?: string
  examples?: readonly string[]
}

/**
 * A decimal number of at most `precision` digits (up to 18), `scale` of them after the decimal point. In responses, it
 * is a string with exactly `scale` decimal places; in requests, it may have fewer places, or be a JSON number of up to
 * 15 significant digits. It is never rounded.
 */
export function Decimal(precision: number, scale: number, options: DecimalOptions = {}) {
  const { minimum, maximum, default: initial, examples, description } = options
  // Values that do not fit are left unchanged; `definitionErrors` reports them if they are limits or the default.
  const exact = (text: string) => {
    const parsed = parseDecimal(text, { precision, scale })
    return 'value' in parsed ? parsed.value : text
  }
  const form: DecimalForm = {
    ...{ precision, scale },
    ...(minimum !== undefined && { minimum: exact(minimum) }),
    ...(maximum !== undefined && { maximum: exact(maximum) }),
  }
  // Has no `format: decimal`, because code generators map that format to types that write JSON numbers, some of them
  // doubles.
  const { $defs } = documentedRules({ pattern: decimalPattern(form) })
  const schema = Type.String({
    description: description ?? `A ${digitsOf(form)}`,
    examples: examples?.map(exact) ?? [decimalExample(form)],
    ...(initial !== undefined && { default: exact(initial) }),
    $defs: { ...$defs, decimal: form },
  })
  return Type.Refine(
    schema,
    (text) => decimalError(text, form) === undefined,
    (text) => decimalError(text as string, form) ?? '',
  )
}

/** The number of decimal places (ISO 4217, minor unit) of each currency that does not have two. */
const minorUnits: Readonly<Record<string, number>> = Object.fromEntries(
  [
    'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF',
    '',
    '',
    'BHD IQD JOD KWD LYD OMR TND',
    'CLF UYW',
  ].flatMap((codes, places) => codes.split(' ').map((code) => [code, places])),
)

/**
 * An amount of money in one currency, named by its ISO 4217 code: a decimal of at most 18 digits with as many decimal
 * places as the currency has, such as two for EUR and none for JPY.
 */
export function Money(currency: Uppercase<string>, options: DecimalOptions = {}) {
  const scale = minorUnits[currency] ?? 2
  const description = `An amount in ${currency}: a ${digitsOf({ precision: 18, scale })}`
  const money = Decimal(18, scale, { description, ...options })
  Object.assign(decimalFormOf(money) as DecimalForm, { currency })
  return money
}

const digitsOf = ({ precision, scale }: DecimalForm): string => {
  const digits = `decimal number of at most ${precision} digits`
  return scale === 0 ? digits : `${digits}, ${scale} of them after the decimal point`
}

/** Returns the codec of a decimal's column. */
export const decimalColumnCodec = (schema: TSchema): Codec => decimalCodec(formOf(schema).scale)

/**
 * Returns the recorded name of a decimal's column type. It includes the scale, because with another scale the stored
 * integers would represent different values.
 */
export const decimalColumnName = (schema: TSchema): string => `decimal with scale ${formOf(schema).scale}`

/** Returns the schema of the query parameter for a filter or bound. */
export const decimalParameter = (description: string, schema: TSchema): TSchema => {
  const { precision, scale } = formOf(schema)
  const rules = documentedRules({ pattern: decimalPattern({ precision, scale }) })
  return Type.Optional(Type.String({ description, examples: [decimalExample(formOf(schema))], ...rules }))
}

/** Parses a query parameter and returns its value with the scale of the field. Throws INVALID_INPUT. */
export function parseDecimalParameter(name: string, text: string, schema: TSchema): string {
  const parsed = parseDecimal(text, formOf(schema))
  if ('error' in parsed) throw malformedQuery(name, parsed.error)
  return parsed.value
}

/** Returns true if a value, such as one from a cursor, is a decimal in exactly the form that responses contain. */
export function isExactDecimal(value: unknown, schema: TSchema): boolean {
  const parsed = parseDecimal(String(value), formOf(schema))
  return 'value' in parsed && parsed.value === value
}

/** Returns the largest integer that a decimal's column must hold. */
export const decimalMagnitude = (schema: TSchema): number => 10 ** formOf(schema).precision - 1

const formOf = (schema: TSchema) => decimalFormOf(schema) as DecimalForm

const maxPrecision = 18

/** Returns the errors in the decimals of a field, at any depth. */
export function decimalFieldErrors(field: string, schema: TSchema): string[] {
  return [...decimalsIn(schema, field, true)].flatMap(({ path, form, isReachable }) => {
    const { precision, scale, minimum, maximum, currency = 'EUR' } = form
    if (!Number.isInteger(precision) || precision < 1 || precision > maxPrecision) {
      return [`the precision of ${path} must be an integer from 1 to ${maxPrecision}, not ${precision}`]
    }
    if (!Number.isInteger(scale) || scale < 0 || scale > precision) {
      return [`the scale of ${path} must be an integer from 0 to its precision ${precision}, not ${scale}`]
    }
    if (!/^[A-Z]{3}$/.test(currency)) {
      return [`the currency of ${path} must be an ISO 4217 code such as EUR, not ${String(currency).slice(0, 20)}`]
    }
    if (!isReachable) return [`the decimal ${path} must be a field, a property or the items of an array, not a choice`]
    const invalid = Object.entries({ minimum, maximum }).flatMap(([name, text]) => {
      const parsed = text === undefined ? { value: '' } : parseDecimal(text, { precision, scale })
      return 'error' in parsed ? [`the ${name} of ${path} ${parsed.error}`] : []
    })
    if (invalid.length > 0 || minimum === undefined || maximum === undefined) return invalid
    return decimalError(minimum, form) ? [`the minimum of ${path} is greater than its maximum`] : []
  })
}

interface FoundDecimal {
  path: string
  form: DecimalForm
  /** False inside a union or a similar construct, where values are not converted. */
  isReachable: boolean
}

const valueKeywords = ['default', 'examples', 'enum', 'const', '$defs']

function* decimalsIn(schema: object, path: string, isReachable: boolean): Iterable<FoundDecimal> {
  const form = decimalFormOf(schema)
  if (form) yield { path, form, isReachable }
  for (const [keyword, inner] of Object.entries(schema) as [string, object][]) {
    if (valueKeywords.includes(keyword) || typeof inner !== 'object' || inner === null) continue
    if (keyword === 'properties') {
      for (const [name, property] of Object.entries(inner)) yield* decimalsIn(property, `${path}.${name}`, isReachable)
    } else if (keyword === 'items' && !Array.isArray(inner)) yield* decimalsIn(inner, `${path}[]`, isReachable)
    else yield* decimalsIn(inner, path, false)
  }
}
