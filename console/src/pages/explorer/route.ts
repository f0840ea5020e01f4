import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { rootRoute } from '../../root.tsx'

interface ExplorerSearch {
  /** The operation's id in the OpenAPI document. */
  operation?: string | undefined
}

export const explorerRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/explorer',
  validateSearch: ({ operation }: Record<string, unknown>): ExplorerSearch => ({
    operation: typeof operation === 'string' ? operation : undefined,
  }),
  component: lazyRouteComponent(() => import('./explorer.tsx'), 'Explorer'),
})
