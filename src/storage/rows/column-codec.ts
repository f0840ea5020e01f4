type Values = Record<string, unknown>

/** Converts between a value and its stored form, such as a boolean and 1 or 0. */
export interface Codec {
  encode: (value: unknown) => unknown
  decode: (stored: unknown) => unknown
  /** True for 64-bit integers, which drivers bind as bigint and must read as text to preserve every digit. */
  isWide?: true
}

/**
 * Stores a decimal as a 64-bit integer: its digits without the decimal point. Values have exactly `scale` decimal
 * places.
 */
export const decimalCodec = (scale: number): Codec => ({
  isWide: true,
  encode: (value) => wideInteger(String(value)),
  decode: (stored) => withPoint(String(stored), scale),
})

/** Returns the integer that stores a decimal. */
export const wideInteger = (decimal: string): bigint => BigInt(decimal.replace('.', ''))

/** Returns an integer as text with a decimal point before its last `scale` digits. */
export function withPoint(integer: string, scale: number): string {
  if (scale === 0) return integer
  const [sign, digits] = integer.startsWith('-') ? ['-', integer.slice(1)] : ['', integer]
  const padded = digits.padStart(scale + 1, '0')
  return `${sign}${padded.slice(0, -scale)}.${padded.slice(-scale)}`
}

/** Returns SQL that converts a decimal's stored integer to text, the same on both engines; null stays null. */
export const decimalText = (column: string, scale: number): string =>
  scale === 0
    ? `cast(${column} as text)`
    : `case when ${column} < 0 then '-' else '' end || cast(abs(${column}) / ${10n ** BigInt(scale)} as text) || '.' ||
      substr(cast(abs(${column}) % ${10n ** BigInt(scale)} + ${10n ** BigInt(scale)} as text), 2)`

/** Encodes into a copy and decodes in place. Null stays null; without codecs, rows are returned unchanged. */
export function rowCodec(codecs: Readonly<Record<string, Codec>>) {
  const entries = Object.entries(codecs)
  const encode = (values: Values): Values => {
    const encoded = { ...values }
    for (const [field, codec] of entries) {
      if (encoded[field] !== null && encoded[field] !== undefined) encoded[field] = codec.encode(encoded[field])
    }
    return encoded
  }
  const decode = <R extends Values | undefined>(row: R): R => {
    for (const [field, codec] of row === undefined ? [] : entries) {
      const stored = (row as Values)[field]
      // List pages may omit fields.
      if (stored !== null && stored !== undefined) (row as Values)[field] = codec.decode(stored)
    }
    return row
  }
  const isCoded = entries.length > 0
  return isCoded ? { isCoded, encode, decode } : { isCoded, encode: same<Values>, decode: same as typeof decode }
}

const same = <T>(value: T): T => value
