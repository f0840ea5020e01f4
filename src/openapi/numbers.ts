/** JSON Schema keywords with data as their values; the members of these values are not keywords. */
const data: ReadonlySet<string> = new Set(['example', 'examples', 'default', 'enum', 'const'])

const maxInt32 = 2 ** 31 - 1

/**
 * Adds number formats to a document: `double` for numbers, `int32` for integers whose maximum fits in 32 bits, and
 * `int64` for other integers. Without a format, generated clients in Go, Java and Rust parse 123456789.99 as a 32-bit
 * float.
 */
export function withNumberFormats<T>(value: T, parent = ''): T {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((inner) => withNumberFormats(inner)) as T
  // The author chooses the member names in `properties`, so these names are not keywords.
  const isMap = parent === 'properties'
  if (isUnbounded(value)) return value
  const members = Object.entries(value).map(([name, inner]) => [
    name,
    data.has(name) && !isMap ? inner : withNumberFormats(inner, isMap ? '' : name),
  ])
  const format = isMap ? undefined : formatOf(value as { type?: unknown; format?: unknown; maximum?: unknown })
  return { ...Object.fromEntries(members), ...(format && { format }) }
}

/** Returns true for an integer query parameter without a maximum, such as `limit`; it accepts integers of any size. */
function isUnbounded(value: object): boolean {
  const { in: location, schema } = value as { in?: unknown; schema?: { type?: unknown; maximum?: unknown } }
  return location === 'query' && schema?.type === 'integer' && schema.maximum === undefined
}

function formatOf({ type, format, maximum }: { type?: unknown; format?: unknown; maximum?: unknown }) {
  const types = [type].flat()
  if (format !== undefined) return undefined
  if (types.includes('number')) return 'double'
  if (!types.includes('integer')) return undefined
  return typeof maximum === 'number' && maximum <= maxInt32 ? 'int32' : 'int64'
}
