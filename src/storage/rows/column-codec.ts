type Values = Record<string, unknown>

/** Converts between a value and the form in which its column stores it, such as a boolean as 1 or 0. */
export interface Codec {
  encode: (value: unknown) => unknown
  decode: (stored: unknown) => unknown
}

/** Encodes into a copy, decodes in place. Null stays null; without codecs rows are returned unchanged. */
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
