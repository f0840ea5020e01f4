import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { rootRoute } from '../../root.tsx'
import { textOf, textsOf } from '../../search.ts'

/** The search parameters of a table: search text, sort order, filters as `[parameter, value]`, and visible columns. */
export interface TableSearch {
  q?: string
  sort?: string
  filters?: [parameter: string, value: string][]
  columns?: string[]
}

function tableSearch(search: Record<string, unknown>): TableSearch {
  const { filters, columns } = search
  const pairs = Array.isArray(filters)
    ? filters.flatMap((pair: unknown): [string, string][] => {
        if (!Array.isArray(pair)) return []
        const parameter = textOf(pair[0])
        const value = pair[1] === '' ? '' : textOf(pair[1])
        return parameter === undefined || value === undefined ? [] : [[parameter, value]]
      })
    : []
  const names = Array.isArray(columns) ? columns.filter((name) => typeof name === 'string') : []
  return {
    ...textsOf('q', 'sort')(search),
    ...(pairs.length > 0 && { filters: pairs }),
    ...(names.length > 0 && { columns: names }),
  }
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
