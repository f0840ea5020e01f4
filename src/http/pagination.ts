import { hash } from 'node:crypto'
import { Type } from 'typebox'
import { documentedRules } from './partial-schema.ts'
import { malformedQuery } from './problems/problem.ts'

/** Where a page starts: after the row with these sort values, in list order or backwards. */
export interface Cursor {
  after: (string | number)[]
  backwards: boolean
}

export const pageSize = { default: 50, most: 200 }

/** The `limit` parameter of a list. */
export const PageLimit = Type.Optional(
  Type.Integer({
    minimum: 1,
    description: `Number of items to return, at most ${pageSize.most}`,
    // This schema only documents the default. The validator must not insert the default into the query, because the
    // Link header repeats the query as sent.
    ...documentedRules({ default: pageSize.default }),
  }),
)

/** The `cursor` parameter of a list. */
export const CursorText = Type.Optional(
  Type.String({ maxLength: 2_000, description: 'Position of the page, from a Link header', examples: [''] }),
)

/** The `fields` parameter, which requests a partial response. */
export const Fields = Type.Optional(
  Type.String({ description: 'Names of the members to return, separated by commas; by default all', examples: ['id'] }),
)

/** Returns the page size for a `limit` parameter: capped at the maximum, or the default if the parameter is absent. */
export const pageSizeOf = (limit: number | undefined): number => Math.min(limit ?? pageSize.default, pageSize.most)

/** Returns a short hash of the filter and sort order to which a cursor belongs. */
export const listFingerprint = (parts: unknown): string => hash('sha1', JSON.stringify(parts), 'base64url').slice(0, 10)

export const encodeCursor = (fingerprint: string, { after, backwards }: Cursor): string =>
  Buffer.from(JSON.stringify([fingerprint, backwards ? 1 : 0, ...after])).toString('base64url')

/** Decodes a cursor from `encodeCursor`. Throws INVALID_INPUT if it is malformed or belongs to a different list. */
export function decodeCursor(text: string, fingerprint: string, length: number): Cursor {
  const malformed = (message: string) => malformedQuery('cursor', message)
  let parts: unknown
  try {
    parts = JSON.parse(Buffer.from(text, 'base64url').toString())
  } catch (cause) {
    throw Object.assign(malformed('is not a valid cursor'), { cause })
  }
  const [sent, direction, ...after] = Array.isArray(parts) ? parts : []
  // PostgreSQL text cannot contain NUL, so no genuine cursor contains it.
  const scalars = after.every((value) => Number.isFinite(value) || (typeof value === 'string' && !value.includes('\0')))
  if (after.length !== length || !scalars) throw malformed('is not a valid cursor')
  if (sent !== fingerprint) throw malformed('belongs to a list with a different filter or sort')
  return { after, backwards: direction === 1 }
}

/** Builds the Link header of a page (RFC 8288): always `first`, and `next` and `prev` if those pages exist. */
export function linkHeader(path: string, query: object, cursors: { next?: string; prev?: string }): string {
  const otherParameters = Object.entries(query).filter(([name, value]) => name !== 'cursor' && value !== undefined)
  const href = (cursor?: string) => {
    const search = new URLSearchParams(otherParameters.map(([name, value]): [string, string] => [name, String(value)]))
    if (cursor) search.set('cursor', cursor)
    return search.size > 0 ? `${path}?${search}` : path
  }
  const links = [['first', href()]]
  if (cursors.prev) links.push(['prev', href(cursors.prev)])
  if (cursors.next) links.push(['next', href(cursors.next)])
  return links.map(([rel, target]) => `<${target}>; rel="${rel}"`).join(', ')
}

/** The paging parameters of a list request. */
export interface PageQuery {
  limit?: number
  cursor?: string
}

interface PageRules<Row> {
  /** The filters; a cursor is valid only for a list with the same filters. */
  of: unknown
  /** Returns the sort values of a row; the combination is unique. */
  keyOf: (row: Row) => Cursor['after']
  /**
   * Reads up to `count` rows after the row with the given sort values; for null, from the start of the list. When
   * reading backwards, reads the rows before it instead, nearest first.
   */
  rowsAfter: (after: Cursor['after'] | null, backwards: boolean, count: number) => Promise<Row[]>
}

/**
 * Reads one page of a list and returns cursors for the previous and next pages. Concurrent inserts do not cause rows to
 * be skipped or repeated.
 */
export async function keysetPage<Row>(query: PageQuery, length: number, { of, keyOf, rowsAfter }: PageRules<Row>) {
  const limit = pageSizeOf(query.limit)
  const fingerprint = listFingerprint(of)
  const cursor = query.cursor ? decodeCursor(query.cursor, fingerprint, length) : null
  const backwards = cursor?.backwards ?? false
  const found = await rowsAfter(cursor?.after ?? null, backwards, limit + 1)
  const more = found.length > limit
  const rows = backwards ? found.slice(0, limit).reverse() : found.slice(0, limit)
  const [first, last] = [rows[0], rows.at(-1)]
  const at = (row: Row, backwards: boolean) => encodeCursor(fingerprint, { after: keyOf(row), backwards })
  const cursors = {
    ...(last !== undefined && (backwards || more) && { next: at(last, false) }),
    ...(first !== undefined && (backwards ? more : cursor !== null) && { prev: at(first, true) }),
  }
  return { rows, cursors }
}
