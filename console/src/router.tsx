import { createRouter } from '@tanstack/react-router'
import { accessRoutes } from './pages/access/route.ts'
import { explorerRoute } from './pages/explorer/route.ts'
import { operationsRoutes } from './pages/operations/route.ts'
import { overviewRoute } from './pages/overview/route.ts'
import { recordsRoutes } from './pages/records/route.ts'
import { reportRoutes } from './pages/reports/route.ts'
import { trafficRoutes } from './pages/traffic/route.ts'
import { webhookRoutes } from './pages/webhooks/route.ts'
import { rootRoute } from './root.tsx'
import { PageFailed } from './shell/page-failed.tsx'
import { Loading } from './ui/states.tsx'

/** Every page; each area declares its routes in `pages/<area>/route.ts`. */
const routeTree = rootRoute.addChildren([
  overviewRoute,
  ...trafficRoutes,
  ...recordsRoutes,
  ...accessRoutes,
  ...webhookRoutes,
  ...reportRoutes,
  explorerRoute,
  ...operationsRoutes,
])

export const router = createRouter({
  routeTree,
  basepath: '/console',
  defaultPreload: 'intent',
  defaultPendingComponent: () => <Loading />,
  defaultErrorComponent: PageFailed,
  scrollRestoration: true,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
