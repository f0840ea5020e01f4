import { hash } from 'node:crypto'
import type { CachedResponse } from '../../http/fast-path/cached-response.ts'
import type { Mark } from '../../storage/rows/list-query.ts'
import type { ListQuery } from '../../storage/rows/page-query.ts'
import { passesAll, type RowTest } from '../../storage/rows/row-test.ts'
import type { DeclaredComputed } from '../computed/options.ts'
import type { Time } from '../computed/present.ts'
import { todayIn } from '../conditions/today.ts'
import type { Reached } from '../queries/related-filters.ts'
import type { ReadableRows } from '../relations/reference.ts'

/** A cached list page, ready to be sent. */
export interface CachedPage extends CachedResponse {
  link: string
  /** The query that read the page, and the id and revision of each row read. */
  query: ListQuery
  marks: readonly Mark[]
  /** The number of the last transaction when the page was read or last found unchanged; null without `Changes`. */
  asOf: number | null
  /** Whether the page depends only on its URL and on the rows of the list's table. */
  isPlain: boolean
}

/** Returns true only if no transaction can have changed the page since `asOf`. */
export const isPageUnchanged = ({ asOf }: CachedPage, changed: number | undefined): boolean =>
  changed !== undefined && asOf !== null && changed <= asOf

/** Returns true if a page still has the same rows at the same revisions. */
export function sameMarks(marks: CachedPage['marks'], cached: CachedPage['marks']): boolean {
  return (
    marks.length === cached.length &&
    marks.every(({ id, revision }, at) => id === cached[at]?.id && revision === cached[at]?.revision)
  )
}

/** List pages by cache key: the URL, and whatever else the page depends on (see `keyOf`). */
export interface PageCache {
  get: (url: string) => CachedPage | undefined
  /** Caches and returns a page. If the cache is full, evicts the least recently used pages. */
  set: (url: string, page: CachedPage) => CachedPage
}

const maxCharacters = 4_000_000

/** The rows that the caller can read: in the list, and through the relations that the list's query follows. */
interface ReadBy {
  read: RowTest
  reached: Reached
}

/**
 * Caches a list's pages by request and by the rows that the caller can read. Pages with the key null are not cached.
 */
export interface CachedPages {
  keyOf: (request: { url: string }, visible: ReadBy, readableRelated?: ReadableRows) => string | null
  get: (key: string | null) => CachedPage | undefined
  set: (key: string | null, page: CachedPage) => CachedPage
}

const digests = new WeakMap<RowTest, string>()

/** Returns a digest of a row test, for cache keys. It is computed only once per test object. */
function digestOf(test: RowTest): string {
  const known = digests.get(test)
  if (known !== undefined) return known
  const digest = hash('sha256', JSON.stringify(test), 'base64url')
  digests.set(test, digest)
  return digest
}

/**
 * Caches pages for all callers that can read the same rows. If a condition depends on the day, a page is valid for that
 * day only. If the resource has derived fields, caches no pages, because the fields may depend on the time.
 */
export function cachedPages({ usesToday, derived }: DeclaredComputed, time: Time): CachedPages {
  const pages = pageCache()
  const isCacheable = Object.keys(derived).length === 0
  const today = usesToday ? todayIn(time) : undefined
  const keyOf: CachedPages['keyOf'] = ({ url }, { read, reached }, readableRelated) => {
    if (!isCacheable) return null
    let key = read === passesAll ? url : `${url} ${digestOf(read)}`
    for (const [name, { read, day = '' }] of reached) key += ` ${name} ${digestOf(read)} ${day}`
    const expanded = readableRelated ? `${key} ${JSON.stringify([...readableRelated])}` : key
    return today ? `${today()} ${expanded}` : expanded
  }
  return {
    keyOf,
    get: (key) => (key === null ? undefined : pages.get(key)),
    set: (key, page) => (key === null ? page : pages.set(key, page)),
  }
}

/**
 * Creates an LRU cache of about four megabytes of pages. The caller checks a page's validity, by `asOf` or by `marks`.
 */
export function pageCache(): PageCache {
  const pages = new Map<string, CachedPage>()
  let characters = 0
  const evict = (url: string, page: CachedPage) => {
    pages.delete(url)
    characters -= url.length + page.text.length
  }
  return {
    get: (url) => {
      const page = pages.get(url)
      if (page === undefined) return undefined
      pages.delete(url)
      pages.set(url, page)
      return page
    },
    set: (url, page) => {
      const previous = pages.get(url)
      if (previous) evict(url, previous)
      pages.set(url, page)
      characters += url.length + page.text.length
      for (const [oldest, evicted] of pages) {
        if (characters <= maxCharacters) break
        evict(oldest, evicted)
      }
      return page
    },
  }
}
