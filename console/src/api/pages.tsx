import { type QueryKey, useInfiniteQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Button } from '../ui/button.tsx'
import { Loaded } from '../ui/states.tsx'
import { linkOf } from './client.ts'

interface Page<Row> {
  rows: readonly Row[]
  cursor: string | null
}

interface PagedProps<Row> {
  queryKey: QueryKey
  /** Reads the page at `cursor`; without a cursor, reads the first page. */
  read: (cursor: string | undefined) => Promise<{ data: readonly Row[]; headers: Headers }>
  /** The polling interval in ms while a single page is shown. Several pages are read again only after a change. */
  refetchInterval?: number | ((rows: readonly Row[]) => number)
  /** Renders the rows of all loaded pages. */
  children: (rows: readonly Row[]) => ReactNode
}

/** A list with cursor pagination, and a button that loads the next page. */
export function Paged<Row>({ queryKey, read, refetchInterval, children }: PagedProps<Row>) {
  const query = useInfiniteQuery({
    queryKey,
    queryFn: async ({ pageParam }): Promise<Page<Row>> => {
      const { data, headers } = await read(pageParam ?? undefined)
      const next = linkOf(headers, 'next')
      return { rows: data, cursor: next === null ? null : new URLSearchParams(next.split('?')[1]).get('cursor') }
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ cursor }) => cursor,
    select: ({ pages }) => pages.flatMap(({ rows }) => rows),
    refetchInterval: ({ state }) => {
      const pages = state.data?.pages ?? []
      if (refetchInterval === undefined || pages.length > 1) return false
      return typeof refetchInterval === 'number' ? refetchInterval : refetchInterval(pages[0]?.rows ?? [])
    },
  })
  return (
    <>
      <Loaded query={query}>{children}</Loaded>
      {query.hasNextPage && (
        <div className="row">
          <Button isDisabled={query.isFetchingNextPage} onPress={() => void query.fetchNextPage()}>
            {query.isFetchingNextPage ? 'Loading …' : 'Show more'}
          </Button>
        </div>
      )}
    </>
  )
}
