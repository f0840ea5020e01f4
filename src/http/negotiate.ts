/** One entry of an Accept header (RFC 9110 §12.5.1). */
interface Range {
  type: string
  q: number
}

const parse = (accept: string): Range[] =>
  accept.split(',').map((entry) => {
    const [type = '', ...parameters] = entry.split(';').map((part) => part.trim().toLowerCase())
    const weight = parameters.find((parameter) => parameter.startsWith('q='))
    return { type, q: weight === undefined ? 1 : Math.min(Math.max(Number(weight.slice(2)) || 0, 0), 1) }
  })

/** The weight an Accept header gives a media type: the most specific range that covers it decides, 0 when none does. */
export function weightOf(accept: string, mediaType: string): number {
  const ranges = parse(accept)
  const family = `${mediaType.slice(0, mediaType.indexOf('/'))}/*`
  const covering = [mediaType, family, '*/*'].map((type) => ranges.find((range) => range.type === type))
  return covering.find((range) => range !== undefined)?.q ?? 0
}

/** True when Accept names this very type with a weight above 0, not through a wildcard. */
export const names = (accept: string, mediaType: string): boolean =>
  parse(accept).some(({ type, q }) => type === mediaType && q > 0)
