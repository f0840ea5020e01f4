import { weightedList } from './accept.ts'

/** A content coding supported for responses (RFC 9110 §8.4.1). */
export type ContentCoding = 'br' | 'gzip'

/** The result of negotiating Accept-Encoding: the coding to use, if any, and whether uncompressed content is acceptable. */
export interface NegotiatedCoding {
  coding: ContentCoding | null
  identity: boolean
}

/**
 * Selects the preferred coding from an Accept-Encoding header (RFC 9110 §12.5.3). `coding` is null if the client
 * prefers uncompressed content or accepts no supported coding.
 */
export function negotiateCoding(acceptEncoding: string): NegotiatedCoding {
  const weights = weightsOf(acceptEncoding)
  const any = weights.get('*')
  const plain = weights.get('identity')
  const of = (coding: ContentCoding) => weights.get(coding) ?? any ?? 0
  // Brotli wins a tie because it compresses better.
  const best = of('gzip') > of('br') ? 'gzip' : 'br'
  const isPreferred = of(best) > 0 && of(best) >= (plain ?? 0)
  return { coding: isPreferred ? best : null, identity: (plain ?? any ?? 1) > 0 }
}

/** Returns whether Accept-Encoding allows a coding; false if the header is absent. */
export function acceptsCoding(acceptEncoding: string | undefined, coding: string): boolean {
  if (acceptEncoding === undefined) return false
  const weights = weightsOf(acceptEncoding)
  return (weights.get(coding) ?? weights.get('*') ?? 0) > 0
}

const weightsOf = (acceptEncoding: string) =>
  new Map(weightedList(acceptEncoding).map(({ name, q }) => [name === 'x-gzip' ? 'gzip' : name, q]))

/**
 * Converts `"3"` to `"3-gzip"`: compression changes the bytes, so compressed content needs a different strong tag. Weak
 * tags are returned unchanged, because they are valid for every coding (RFC 9110 §8.8.3.3).
 */
export const codedTag = (etag: string, coding: ContentCoding): string =>
  etag.startsWith('W/') ? etag : `${etag.slice(0, -1)}-${coding}"`

const suffix = /-(br|gzip)"$/

/** Converts `"3-gzip"` to `"3"` and `gzip`; returns a tag without a coding unchanged. */
export function plainTag(etag: string): [tag: string, coding: string | undefined] {
  const coding = suffix.exec(etag)?.[1]
  return coding === undefined ? [etag, undefined] : [`${etag.slice(0, -coding.length - 2)}"`, coding]
}
