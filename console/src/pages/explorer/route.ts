import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { rootRoute } from '../../root.tsx'
import { textsOf } from '../../search.ts'

export const explorerRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/explorer',
  // `operation` is an `operationId` of the OpenAPI document.
  validateSearch: textsOf('operation'),
  component: lazyRouteComponent(() => import('./explorer.tsx'), 'Explorer'),
})
