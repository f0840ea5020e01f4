/** How a field is stored that no column type of both engines can hold: booleans as 1 or 0, JSON as its text. */
export type Coding = 'boolean' | 'json'

type Values = Record<string, unknown>
type Code = (value: unknown) => unknown

const codecs: Record<Coding, { encode: Code; decode: Code }> = {
  boolean: { encode: (value) => (value === true ? 1 : 0), decode: (kept) => kept === 1 },
  json: { encode: (value) => JSON.stringify(value), decode: (kept) => JSON.parse(String(kept)) },
}

/** A value as stored in its column; values that need no coding are returned unchanged. */
export const encoded = (kind: string, value: unknown): unknown =>
  kind === 'boolean' || kind === 'json' ? codecs[kind].encode(value) : value

/** Encodes into a copy, decodes in place. Null stays null; does nothing when no field is coded. */
export function codecsOf(coded: Readonly<Record<string, Coding>>) {
  const entries = Object.entries(coded)
  const encode = (values: Values): Values => {
    const kept = { ...values }
    for (const [field, coding] of entries) {
      if (kept[field] !== null && kept[field] !== undefined) kept[field] = codecs[coding].encode(kept[field])
    }
    return kept
  }
  const decode = <R extends Values | undefined>(row: R): R => {
    for (const [field, coding] of row === undefined ? [] : entries) {
      const kept = (row as Values)[field]
      // Pages of a list do not contain every field.
      if (kept !== null && kept !== undefined) (row as Values)[field] = codecs[coding].decode(kept)
    }
    return row
  }
  const isCoded = entries.length > 0
  return isCoded ? { isCoded, encode, decode } : { isCoded, encode: same<Values>, decode: same as typeof decode }
}

const same = <T>(value: T): T => value
