/** One entry of a weighted list, such as that of Accept: a name in lower case and its weight (RFC 9110 §12.4.2). */
export interface Weighted {
  name: string
  q: number
}

// What is quoted separates nothing; an unclosed quote reaches to the end.
const entries = /(?:[^,"]|"(?:[^"\\]|\\.)*"?)+/g
const parts = /(?:[^;"]|"(?:[^"\\]|\\.)*"?)+/g

/** The entries of a weighted list; a weight that is none counts as 0, one above 1 as 1, parameters are left out. */
export const weightedList = (header: string): Weighted[] =>
  (header.match(entries) ?? []).map((entry) => {
    const [name = '', ...parameters] = (entry.match(parts) ?? []).map((part) => part.trim().toLowerCase())
    const weight = parameters.find((parameter) => parameter.startsWith('q='))
    return { name, q: weight === undefined ? 1 : Math.min(Math.max(Number(weight.slice(2)) || 0, 0), 1) }
  })

/** The weight an Accept header gives a media type: the most specific range that covers it decides, 0 when none does. */
export function quality(accept: string, mediaType: string): number {
  const ranges = weightedList(accept)
  for (const type of [mediaType, `${mediaType.slice(0, mediaType.indexOf('/'))}/*`, '*/*']) {
    const covering = ranges.filter(({ name }) => name === type)
    if (covering.length > 0) return Math.max(...covering.map(({ q }) => q))
  }
  return 0
}

/** True when Accept names this very type with a weight above 0, not through a wildcard. */
export const parseAccept = (accept: string, mediaType: string): boolean =>
  weightedList(accept).some(({ name, q }) => name === mediaType && q > 0)

/** Whether an answer of this media type, given without its parameters, may be sent (RFC 9110 §12.5.1). */
export const accepts = (accept: string | undefined, mediaType: string): boolean =>
  accept === undefined || accept === '*/*' || accept.trim() === '' || quality(accept, mediaType) > 0
