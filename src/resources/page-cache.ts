import type { Mark } from '../storage/rows/list-query.ts'
import type { ListQuery } from '../storage/rows/page-query.ts'

/** A page of a list as it was sent. */
export interface Page {
  /** The JSON of its items, and its weak tag. */
  text: string
  etag: string
  link: string
  /** What it was read with, and the marks of the rows that were read. */
  query: ListQuery
  marks: readonly Mark[]
  /** The generation of the database that it was right for: what is read of the same one needs no look. */
  generation: number | null
}

/** Pages by the URL they answer. */
export interface Pages {
  of: (url: string) => Page | undefined
  /** Keeps a page, drops the ones not asked for the longest, and returns it. */
  keep: (url: string, page: Page) => Page
}

const charactersKept = 2_000_000

/** Keeps about two megabytes of pages. Whether one is still right is for the reader to find out: it compares generation or marks. */
export function pageCache(): Pages {
  const pages = new Map<string, Page>()
  let characters = 0
  const drop = (url: string, page: Page) => {
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
