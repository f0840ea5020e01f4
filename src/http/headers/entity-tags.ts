import { hash } from 'node:crypto'

/** An entity tag from a header: the opaque tag including its quotes, and whether it is weak (RFC 9110 §8.8.3). */
export interface EntityTag {
  opaque: string
  isWeak: boolean
}

const form = String.raw`(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"`
const listForm = new RegExp(String.raw`^[\t ]*(?:${form}[\t ]*)?(?:,[\t ]*(?:${form}[\t ]*)?)*$`)
const entityTag = /(W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g

/**
 * Parses If-Match or If-None-Match (RFC 9110 §13.1.1, §13.1.2): returns `any` for `*`, otherwise the list of tags.
 * Returns null if the value is malformed in any way, because evaluating only the valid tags could have an effect that
 * the client did not intend.
 */
export function parseEntityTags(value: string): 'any' | EntityTag[] | null {
  if (value.trim() === '*') return 'any'
  if (!listForm.test(value)) return null
  return [...value.matchAll(entityTag)].map(([, weak, opaque]) => ({ opaque: opaque as string, isWeak: Boolean(weak) }))
}

/** Returns true if the value is `*` or contains the tag; under strong comparison, weak tags never match (§8.8.3.2). */
export function matchesTag(value: string, etag: string, comparison: 'weak' | 'strong'): boolean {
  const tags = parseEntityTags(value)
  if (tags === 'any') return true
  if (comparison === 'strong') return tags?.some(({ opaque, isWeak }) => !isWeak && opaque === etag) ?? false
  const wanted = etag.startsWith('W/') ? etag.slice(2) : etag
  return tags?.some(({ opaque }) => opaque === wanted) ?? false
}

/**
 * Returns `_variant` for a representation that also depends on a value that can change without a new revision. For
 * null, returns an empty object.
 */
export const variantWith = (value: string | null): { _variant?: string } =>
  value === null ? {} : { _variant: hash('sha256', value, 'hex').slice(0, 16) }
