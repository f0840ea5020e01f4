import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { rootRoute } from '../../root.tsx'

/** What a link to a table contains: search text, order, filters as `[parameter, value]`, and the columns. */
export interface TableSearch {
  q?: string
  sort?: string
  filters?: [parameter: string, value: string][]
  columns?: string[]
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : undefined

function tableSearch({ q, sort, filters, columns }: Record<string, unknown>): TableSearch {
  const pairs = Array.isArray(filters)
    ? filters.flatMap((pair: unknown): [string, string][] => {
        if (!Array.isArray(pair)) return []
        const [parameter, value] = pair.map(textOf)
        return parameter === undefined || value === undefined ? [] : [[parameter, value]]
      })
    : []
  const names = Array.isArray(columns) ? columns.filter((name) => typeof name === 'string') : []
  return {
    ...(textOf(q) && { q: textOf(q) }),
    ...(textOf(sort) && { sort: textOf(sort) }),
    ...(pairs.length > 0 && { filters: pairs }),
    ...(names.length > 0 && { columns: names }),
  } as TableSearch
}

const recordsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/records',
  component: lazyRouteComponent(() => import('./resources.tsx'), 'Resources'),
})

const tableRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/records/$resource',
  validateSearch: tableSearch,
  component: lazyRouteComponent(() => import('./records.tsx'), 'Records'),
})

const deletedRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/records/$resource/deleted',
  component: lazyRouteComponent(() => import('./deleted.tsx'), 'DeletedRecords'),
})

const newRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/records/$resource/new',
  component: lazyRouteComponent(() => import('./create.tsx'), 'NewRecord'),
})

const recordRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/records/$resource/row/$id',
  component: lazyRouteComponent(() => import('./record.tsx'), 'Record'),
})

export const recordsRoutes = [recordsRoute, tableRoute, deletedRoute, newRoute, recordRoute]
