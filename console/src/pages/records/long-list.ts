import { useQueries, useQuery } from '@tanstack/react-query'
import { useCallback, useState } from 'react'
import { type ListPage, readPage, useSend } from './data.ts'

/** How long a page stays in memory after it has left the screen. */
const keptMs = 10_000
/** Number of rows to load above the visible rows, and below them. */
const aheadRows = 40

interface Place {
  /** The path of the page, with its cursor. */
  start: string
  /** The number of rows when the page was last read; 0 before that. */
  size: number
}

/** The pages whose cursors are known, and the range of the loaded pages. */
interface Places {
  path: string
  pages: readonly Place[]
  hasMore: boolean
  from: number
  to: number
}

/** A list of any length. Only the pages around the visible rows are in memory. */
export interface LongList<Item> {
  /** The path of the loaded rows. When the path changes, this is the old one until the first new page has been read. */
  path: string
  /** The number of rows in all known pages. */
  count: number
  hasMore: boolean
  /** The loaded rows. */
  rows: readonly Item[]
  /** Returns a row by its position; undefined if it is not loaded. */
  rowAt: (index: number) => Item | undefined
  /** Loads the pages around the visible rows. */
  show: (first: number, last: number) => void
  isPending: boolean
  isLoading: boolean
  /** The error of a page that could not be read; null if there is none. */
  error: unknown
  retry: () => void
}

const beginning = (path: string): Places => ({
  path,
  pages: [{ start: path, size: 0 }],
  hasMore: true,
  from: 0,
  to: 0,
})

/**
 * Reads a list page by page as the user scrolls. Pages are found by cursor, so the user reaches the end only by
 * scrolling through all pages. The cursors of known pages are stored, so these pages can be read again. `path` contains
 * the query without a cursor.
 */
export function useLongList<Item>(key: readonly string[], path: string): LongList<Item> {
  const send = useSend()
  const page = (start: string) => ({
    queryKey: [...key, 'page', start],
    gcTime: keptMs,
    queryFn: ({ signal }: { signal: AbortSignal }) => readPage<Item>(send, start, signal),
  })
  const first = useQuery(page(path))
  const [stored, setStored] = useState(() => beginning(path))
  const known = stored.path !== path && first.isSuccess ? beginning(path) : stored
  const queries = known.pages.slice(known.from, known.to + 1).map(({ start }) => page(start))
  const results = useQueries({ queries })
  const data = results.map((result) => result.data)
  const places = withPages(known, data)
  if (places !== stored) setStored(places)
  const show = useCallback((top: number, bottom: number) => {
    setStored((current) => withRange(current, top - aheadRows, bottom + aheadRows))
  }, [])
  const offset = places.pages.slice(0, places.from).reduce((sum, { size }) => sum + size, 0)
  const slots = data.flatMap<Item | undefined>(
    (one, at) => one?.items ?? Array.from({ length: places.pages[places.from + at]?.size ?? 0 }, () => undefined),
  )
  const failed = [first, ...results].filter(({ isError }) => isError)
  return {
    path: places.path,
    count: places.pages.reduce((sum, { size }) => sum + size, 0),
    hasMore: places.hasMore,
    rows: slots.filter((row) => row !== undefined),
    rowAt: (index) => slots[index - offset],
    show,
    isPending: first.isPending,
    isLoading: first.isFetching || results.some(({ isFetching }) => isFetching),
    error: failed[0]?.error ?? null,
    retry: () => {
      for (const { refetch } of failed) void refetch()
    },
  }
}

/**
 * Returns `places` with the sizes and cursors of the loaded pages. If a page now ends at another row, removes all pages
 * after it.
 */
function withPages(places: Places, data: readonly (ListPage<unknown> | undefined)[]): Places {
  let { pages, hasMore } = places
  for (const [at, one] of data.entries()) {
    const index = places.from + at
    const page = pages[index]
    if (one === undefined || page === undefined) continue
    if (page.size !== one.items.length) pages = pages.with(index, { ...page, size: one.items.length })
    const next = pages[index + 1]
    if (one.next !== null && next?.start === one.next) continue
    if (one.next === null && next === undefined) {
      hasMore = false
      continue
    }
    pages = [...pages.slice(0, index + 1), ...(one.next === null ? [] : [{ start: one.next, size: 0 }])]
    hasMore = one.next !== null
  }
  if (pages === places.pages && hasMore === places.hasMore) return places
  const to = Math.min(places.to, pages.length - 1)
  return { ...places, pages, hasMore, to, from: Math.min(places.from, to) }
}

/** Returns `places` with the range set to the pages that contain these rows. */
function withRange(places: Places, first: number, last: number): Places {
  let end = 0
  const ends = places.pages.map(({ size }) => {
    end += size
    return end
  })
  const pageOf = (row: number) => {
    const at = ends.findIndex((one) => row < one)
    return at === -1 ? ends.length - 1 : at
  }
  const [from, to] = [pageOf(Math.max(0, first)), pageOf(last)]
  return from === places.from && to === places.to ? places : { ...places, from, to }
}
