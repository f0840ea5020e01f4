import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { rootRoute } from '../../root.tsx'
import { isRange, type Range } from './history.ts'

export const overviewRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/',
  validateSearch: ({ range }: Record<string, unknown>): { range?: Range } => (isRange(range) ? { range } : {}),
  component: lazyRouteComponent(() => import('./overview.tsx'), 'Overview'),
})
