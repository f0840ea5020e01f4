import type { Mark } from '../storage/rows/list-query.ts'
import type { ListQuery } from '../storage/rows/page-query.ts'

/** A list page as it was sent. */
export interface CachedPage {
  /** The JSON of its items, and its weak entity tag. */
  text: string
  etag: string
  link: string
  /** The query that read it, and the id and revision of each row read. */
  query: ListQuery
  marks: readonly Mark[]
  /** The database generation at which it was valid: while that is unchanged, the rows need no check. */
  generation: number | null
}

/** List pages by URL. */
export interface PageCache {
  get: (url: string) => CachedPage | undefined
  /** Caches and returns a page; evicts the least recently used ones. */
  set: (url: string, page: CachedPage) => CachedPage
}

const maxCharacters = 4_000_000

/** An LRU cache of about four megabytes of pages. The caller checks validity, by the generation or by the marks. */
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
