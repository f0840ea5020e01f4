import { type QueryKey, useInfiniteQuery } from '@tanstack/react-query'
import { Button } from '../ui/button.tsx'
import { linkOf } from './client.ts'

interface Page<Row> {
  rows: readonly Row[]
  next: string | null
}

interface Pages<Row> {
  queryKey: QueryKey
  /** Reads the page at a cursor; the first page without one. */
  read: (cursor: string | undefined) => Promise<{ data: readonly Row[]; headers: Headers }>
  refetchInterval?: number | ((rows: readonly Row[]) => number)
}

/**
 * Reads a list that has pages with cursors, one page at a time. `refetchInterval` applies while one page is shown: several are
 * read again only after a change.
 */
export function usePages<Row>({ queryKey, read, refetchInterval }: Pages<Row>) {
  return useInfiniteQuery({
    queryKey,
    queryFn: async ({ pageParam }): Promise<Page<Row>> => {
      const { data, headers } = await read(pageParam ?? undefined)
      const next = linkOf(headers, 'next')
      return { rows: data, next: next === null ? null : new URLSearchParams(next.split('?')[1]).get('cursor') }
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    refetchInterval: (query) => {
      const pages = query.state.data?.pages ?? []
      if (refetchInterval === undefined || pages.length > 1) return false
      return typeof refetchInterval === 'number' ? refetchInterval : refetchInterval(pages[0]?.rows ?? [])
    },
  })
}

type Query = Pick<ReturnType<typeof usePages>, 'hasNextPage' | 'isFetchingNextPage' | 'fetchNextPage'>

/** A button that shows the next page of a list below the others. */
export function More({ query }: { query: Query }) {
  if (!query.hasNextPage) return null
  return (
    <div className="row">
      <Button isDisabled={query.isFetchingNextPage} onPress={() => void query.fetchNextPage()}>
        {query.isFetchingNextPage ? 'Loading …' : 'Show more'}
      </Button>
    </div>
  )
}
