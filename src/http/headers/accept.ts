/** An element of a weighted list such as Accept: its lower-case name and its quality value (RFC 9110 §12.4.2). */
export interface Weighted {
  name: string
  q: number
}

// A comma inside a quoted string does not separate elements; an unclosed quote extends to the end.
const entries = /(?:[^,"]|"(?:[^"\\]|\\.)*"?)+/g
const parts = /(?:[^;"]|"(?:[^"\\]|\\.)*"?)+/g

/**
 * Parses a weighted list, ignoring all parameters except the weight. An invalid weight counts as 0; a weight above 1, as 1.
 */
export const weightedList = (header: string): Weighted[] =>
  (header.match(entries) ?? []).map((entry) => {
    const [name = '', ...parameters] = (entry.match(parts) ?? []).map((part) => part.trim().toLowerCase())
    const weight = parameters.find((parameter) => parameter.startsWith('q='))
    return { name, q: weight === undefined ? 1 : Math.min(Math.max(Number(weight.slice(2)) || 0, 0), 1) }
  })

/**
 * Returns the quality value of a media type in an Accept header. The most specific matching range determines the value;
 * it is 0 if no range matches.
 */
export function quality(accept: string, mediaType: string): number {
  const ranges = weightedList(accept)
  for (const type of [mediaType, `${mediaType.slice(0, mediaType.indexOf('/'))}/*`, '*/*']) {
    const covering = ranges.filter(({ name }) => name === type)
    if (covering.length > 0) return Math.max(...covering.map(({ q }) => q))
  }
  return 0
}

/** Returns true if Accept lists exactly this type with a weight above 0; wildcards do not count. */
export const acceptsExactly = (accept: string, mediaType: string): boolean =>
  weightedList(accept).some(({ name, q }) => name === mediaType && q > 0)

/** Returns whether Accept allows this media type, which must be given without parameters (RFC 9110 §12.5.1). */
export const accepts = (accept: string | undefined, mediaType: string): boolean =>
  accept === undefined || accept === '*/*' || accept.trim() === '' || quality(accept, mediaType) > 0
