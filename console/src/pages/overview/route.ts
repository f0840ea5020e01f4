import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { rootRoute } from '../../root.tsx'

export const overviewRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/',
  component: lazyRouteComponent(() => import('./overview.tsx'), 'Overview'),
})
