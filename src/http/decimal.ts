import { isLongNumber } from './strict-json.ts'

/** A decimal type: at most `precision` digits, of which `scale` follow the decimal point. The bounds are inclusive. */
export interface DecimalForm {
  precision: number
  scale: number
  minimum?: string
  maximum?: string
  /** The ISO 4217 currency code, for an amount of money. */
  currency?: string
}

/** A schema that may be or contain decimals. `$defs.decimal`, which validators ignore, describes a decimal. */
interface Shape {
  $defs?: { decimal?: DecimalForm }
  properties?: Record<string, Shape>
  items?: Shape
}

/** Returns the decimal type that a schema describes; undefined for any other schema. */
export const decimalFormOf = (schema: object): DecimalForm | undefined => (schema as Shape).$defs?.decimal

/** A double distinguishes all decimals with up to 15 significant digits. */
const maxNumberDigits = 15
/**
 * Stands in for a JSON number with too many significant digits. The text is not a decimal, so validation rejects it.
 */
const longNumber = `a number of more than ${maxNumberDigits} significant digits`

const decimalText = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?$/

/**
 * Returns the text with exactly `scale` digits after the decimal point. If the text does not match the decimal type,
 * returns an error that says what is allowed.
 */
export function parseDecimal(text: string, form: DecimalForm): { value: string } | { error: string } {
  const { precision, scale } = form
  const [, sign = '', whole = '', fraction = ''] = decimalText.exec(text) ?? []
  if (text === longNumber) return { error: `is ${longNumber}, which JSON parsers may round: send it as a string` }
  if (whole === '') return { error: `must be a decimal number such as "${decimalExample(form)}"` }
  if (fraction.length > scale) return { error: `must have ${atMost(scale)} after the decimal point` }
  const wholeDigits = precision - scale
  if (whole !== '0' && whole.length > wholeDigits) {
    return { error: `must have ${wholeDigits === 0 ? 'only a 0' : atMost(wholeDigits)} before the decimal point` }
  }
  const digits = scale === 0 ? whole : `${whole}.${fraction.padEnd(scale, '0')}`
  return { value: /[1-9]/.test(digits) ? sign + digits : digits }
}

const atMost = (digits: number) =>
  digits === 0 ? 'no digits' : `at most ${digits} ${digits === 1 ? 'digit' : 'digits'}`

/** Returns the error for a decimal that does not match its type or bounds; undefined if it does. */
export function decimalError(text: string, form: DecimalForm): string | undefined {
  const parsed = parseDecimal(text, form)
  if ('error' in parsed) return parsed.error
  const { minimum, maximum } = form
  if (minimum !== undefined && isLess(parsed.value, minimum)) return `must be at least ${minimum}`
  if (maximum !== undefined && isLess(maximum, parsed.value)) return `must be at most ${maximum}`
  return undefined
}

/**
 * Compares decimals of the same scale. Returns false if either text is not a decimal, such as an invalid bound in a
 * declaration.
 */
const isLess = (a: string, b: string) => [a, b].every((text) => decimalText.test(text)) && scaled(a) < scaled(b)
const scaled = (decimal: string) => BigInt(decimal.replace('.', ''))

/** Returns an example that matches the decimal type and its bounds. */
export function decimalExample(form: DecimalForm): string {
  const candidates = ['12.5', '1.5', '0.5', '12', '1', form.minimum ?? '0', form.maximum ?? '0']
  const decimals = candidates.filter((text) => decimalText.test(text))
  const example = decimals.find((text) => decimalError(text, form) === undefined) ?? '0'
  const parsed = parseDecimal(example, form)
  return 'value' in parsed ? parsed.value : example
}

/** Returns a pattern for decimals of this type, in syntax that RE2 accepts. */
export function decimalPattern({ precision, scale, minimum = '-' }: DecimalForm): string {
  const wholeDigits = precision - scale
  const whole = wholeDigits === 0 ? '0' : `(0|[1-9][0-9]{0,${wholeDigits - 1}})`
  return `^${minimum.startsWith('-') ? '-?' : ''}${whole}${scale === 0 ? '' : `(\\.[0-9]{1,${scale}})?`}$`
}

type Read = (holder: Record<string, unknown>, key: string) => void

/**
 * Returns a function that normalizes all decimals in a value in place, at any depth: numbers become text, and text is
 * padded to the exact scale. Values that do not match are left for validation to reject. Returns undefined if the
 * schema contains no decimals.
 */
export function decimalReader(schema: object): ((value: unknown) => void) | undefined {
  const read = readerOf(schema as Shape)
  return read && ((value) => read({ value }, 'value'))
}

function readerOf(schema: Shape): Read | undefined {
  const form = decimalFormOf(schema)
  if (form !== undefined) return (holder, key) => readDecimal(holder, key, form)
  const { properties = {}, items } = schema
  const item = typeof items === 'object' && items !== null ? readerOf(items) : undefined
  const members = Object.entries(properties).flatMap(([name, property]) => {
    const read = readerOf(property)
    return read ? [[name, read] as const] : []
  })
  if (item === undefined && members.length === 0) return undefined
  return (holder, key) => {
    const value = holder[key]
    if (typeof value !== 'object' || value === null) return
    const inner = value as Record<string, unknown>
    if (Array.isArray(value)) for (const at of value.keys()) item?.(inner, String(at))
    else for (const [name, read] of members) if (Object.hasOwn(inner, name)) read(inner, name)
  }
}

function readDecimal(holder: Record<string, unknown>, key: string, form: DecimalForm): void {
  const value = holder[key]
  if (typeof value !== 'number' && typeof value !== 'string') return
  const text = typeof value === 'string' ? value : isLongNumber(holder, key) ? longNumber : decimalTextOf(value)
  const parsed = parseDecimal(text, form)
  holder[key] = 'value' in parsed ? parsed.value : text
}

/**
 * Returns a number as decimal text without an exponent, or `longNumber` if the number has more than 15 significant
 * digits.
 */
export function decimalTextOf(value: number): string {
  const [mantissa = '', exponent = ''] = value.toExponential().split('e')
  const digits = mantissa.replace(/[-.]/g, '')
  if (digits.length > maxNumberDigits) return longNumber
  const power = Number(exponent)
  if (power >= 21) return BigInt(value).toString()
  return power < -6 ? `${value < 0 ? '-' : ''}0.${'0'.repeat(-power - 1)}${digits}` : String(value)
}
