import { type QueryKey, useInfiniteQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { linkOf } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { Failed, Loading, messageOf } from '../../ui/states.tsx'

export interface PagedProps<Item> {
  queryKey: QueryKey
  /** Requests the page at this cursor; the first page without one. */
  load: (cursor: string | undefined) => Promise<{ data: Item[]; headers: Headers }>
  /** Renders the items of all pages that were loaded. */
  children: (items: Item[]) => ReactNode
}

function cursorOf(headers: Headers): string | undefined {
  const next = linkOf(headers, 'next')
  return next === null ? undefined : (new URL(next, location.origin).searchParams.get('cursor') ?? undefined)
}

/** A list that is read page by page, with a button for the next page. */
export function Paged<Item>({ queryKey, load, children }: PagedProps<Item>) {
  const query = useInfiniteQuery({
    queryKey,
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam }) => {
      const { data, headers } = await load(pageParam)
      return { items: data, next: cursorOf(headers) }
    },
    getNextPageParam: ({ next }) => next,
  })
  if (query.data === undefined)
    return query.isError ? <Failed error={query.error} onRetry={() => void query.refetch()} /> : <Loading />
  return (
    <>
      {query.isError && (
        <p className="notice warn" role="status">
          Not up to date: {messageOf(query.error)}
        </p>
      )}
      {children(query.data.pages.flatMap(({ items }) => items))}
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
