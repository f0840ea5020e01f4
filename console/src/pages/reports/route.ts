import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { rootRoute } from '../../root.tsx'
import { oneOf, textOf } from '../../search.ts'

export const taskStates = ['pending', 'in_progress', 'completed', 'failed'] as const

export interface ReportsSearch {
  owner?: 'all' | undefined
  status?: (typeof taskStates)[number] | undefined
  type?: string | undefined
}

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/reports',
  validateSearch: ({ owner, status, type }: Record<string, unknown>): ReportsSearch => ({
    owner: oneOf(['all'], owner),
    status: oneOf(taskStates, status),
    type: textOf(type),
  }),
  component: lazyRouteComponent(() => import('./list.tsx'), 'ReportList'),
})

const newRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/reports/new',
  component: lazyRouteComponent(() => import('./request.tsx'), 'RequestReport'),
})

const taskRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/reports/$taskId',
  component: lazyRouteComponent(() => import('./task.tsx'), 'TaskPage'),
})

export const reportRoutes = [listRoute, newRoute, taskRoute] as const
