import { weightedList } from './accept.ts'

/** A content coding that answers can have (RFC 9110 §8.4.1). */
export type Coding = 'br' | 'gzip'

/** What an Accept-Encoding header leads to: the coding to use, if any, and whether the plain content will do too. */
export interface Choice {
  coding: Coding | null
  identity: boolean
}

/** The coding that an Accept-Encoding header weighs most; none where it weighs plain content more (RFC 9110 §12.5.3). */
export function codingOf(acceptEncoding: string): Choice {
  const weights = weightsOf(acceptEncoding)
  const any = weights.get('*')
  const plain = weights.get('identity')
  const of = (coding: Coding) => weights.get(coding) ?? any ?? 0
  // Of two codings with one weight, the one that makes less of the content.
  const best = of('gzip') > of('br') ? 'gzip' : 'br'
  const isTaken = of(best) > 0 && of(best) >= (plain ?? 0)
  return { coding: isTaken ? best : null, identity: (plain ?? any ?? 1) > 0 }
}

/** Whether the client takes a coding it has asked for; without the header it is not known to. */
export function takesCoding(acceptEncoding: string | undefined, coding: string): boolean {
  if (acceptEncoding === undefined) return false
  const weights = weightsOf(acceptEncoding)
  return (weights.get(coding) ?? weights.get('*') ?? 0) > 0
}

const weightsOf = (acceptEncoding: string) =>
  new Map(weightedList(acceptEncoding).map(({ name, q }) => [name === 'x-gzip' ? 'gzip' : name, q]))

/** `"3"` → `"3-gzip"`: other bytes need another strong tag. A weak one holds for every coding (RFC 9110 §8.8.3.3). */
export const codedTag = (etag: string, coding: Coding): string =>
  etag.startsWith('W/') ? etag : `${etag.slice(0, -1)}-${coding}"`

const suffix = /-(br|gzip)"$/

/** `"3-gzip"` → `"3"` and gzip; a tag without a coding as it is. */
export function plainTag(etag: string): [tag: string, coding: string | undefined] {
  const coding = suffix.exec(etag)?.[1]
  return coding === undefined ? [etag, undefined] : [`${etag.slice(0, -coding.length - 2)}"`, coding]
}
