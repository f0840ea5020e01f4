import { type QueryClient, useQueryClient } from '@tanstack/react-query'
import { useMemo } from 'react'
import { deletedKey, type ListPage, type Loaded, listKey, rowKey } from './data.ts'
import type { Row } from './model.ts'

/** Functions that update a resource's cached rows after a change. */
export interface Cache {
  /** Replaces a row wherever it is shown. */
  replace: (changed: Loaded) => void
  /** Removes a row wherever it is shown. */
  hide: (id: string | number) => void
  /** Reads the rows again; a list starts again with its first page. */
  reset: () => Promise<void>
}

export function useCache(name: string): Cache {
  const queries = useQueryClient()
  return useMemo(() => cacheOf(queries, name), [queries, name])
}

function cacheOf(queries: QueryClient, name: string): Cache {
  const mapPages = (map: (items: Row[]) => Row[]) =>
    queries.setQueriesData<ListPage<Row> | number | null>({ queryKey: listKey(name) }, (data) =>
      typeof data === 'object' && data !== null ? { ...data, items: map(data.items) } : data,
    )
  const changed = () => {
    void queries.invalidateQueries({ queryKey: [...listKey(name), 'count'] })
    void queries.invalidateQueries({ queryKey: deletedKey(name) })
  }
  return {
    replace: ({ row, etag }) => {
      queries.setQueryData(rowKey(name, row.id), { row, etag })
      mapPages((items) => items.map((item) => (item.id === row.id ? { ...item, ...row } : item)))
    },
    hide: (id) => {
      mapPages((items) => items.filter((item) => item.id !== id))
      queries.removeQueries({ queryKey: rowKey(name, id) })
      changed()
    },
    reset: async () => {
      changed()
      await queries.resetQueries({ queryKey: listKey(name) })
      await queries.invalidateQueries({ queryKey: ['records', name, 'row'] })
    },
  }
}
