import type pg from 'pg'

/**
 * Makes transactions send prepared statements by name as well, so that each connection parses a statement only once.
 */
export function useNames(client: pg.PoolClient, names: ReadonlyMap<string, string>): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown
  const queryByName = (text: unknown, args: unknown, ...rest: unknown[]) => {
    if (typeof text !== 'string' || !Array.isArray(args)) return query(text, args, ...rest)
    const [name, values] = [names.get(text), withoutNul(text, args)]
    return name === undefined ? query(text, values, ...rest) : query({ name, text, values }, ...rest)
  }
  Object.assign(client, { query: queryByName })
}

const hasNul = (value: unknown) => typeof value === 'string' && value.includes('\0')

/**
 * In conditions, replaces values that contain U+0000 with null, so that they match no row: PostgreSQL cannot store
 * U+0000 in text and rejects it in parameters. Leaves values to be written unchanged, so that the server rejects them.
 */
export function withoutNul(text: string, values: unknown[]): unknown[] {
  if (!values.some(hasNul)) return values
  const writtenParameters = new Set(text.split(/\swhere\s/i, 1)[0]?.match(/\$\d+/g))
  return values.map((value, at) => (hasNul(value) && !writtenParameters.has(`$${at + 1}`) ? null : value))
}
