import type { Mark } from '../storage/rows/list-query.ts'
import type { ListQuery } from '../storage/rows/page-query.ts'

/** A page of a list as sent. */
export interface CachedPage {
  /** The JSON of its items, and its weak entity tag. */
  text: string
  etag: string
  link: string
  /** The query it was read with, and the marks of the rows read. */
  query: ListQuery
  marks: readonly Mark[]
  /** The database generation for which it is valid: at the same generation no check is needed. */
  generation: number | null
}

/** Pages by URL. */
export interface PageCache {
  of: (url: string) => CachedPage | undefined
  /** Caches a page, evicts the least recently used ones, and returns the page. */
  keep: (url: string, page: CachedPage) => CachedPage
}

const charactersKept = 2_000_000

/** An LRU cache of about two megabytes of pages. The reader checks validity: it compares generation or marks. */
export function pageCache(): PageCache {
  const pages = new Map<string, CachedPage>()
  let characters = 0
  const drop = (url: string, page: CachedPage) => {
    pages.delete(url)
    characters -= url.length + page.text.length
  }
  return {
    of: (url) => {
      const page = pages.get(url)
      if (page === undefined) return undefined
      pages.delete(url)
      pages.set(url, page)
      return page
    },
    keep: (url, page) => {
      const known = pages.get(url)
      if (known) drop(url, known)
      pages.set(url, page)
      characters += url.length + page.text.length
      for (const [oldest, dropped] of pages) {
        if (characters <= charactersKept) break
        drop(oldest, dropped)
      }
      return page
    },
  }
}
