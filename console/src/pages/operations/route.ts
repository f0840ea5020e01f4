import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { rootRoute } from '../../root.tsx'
import { textsOf } from '../../search.ts'

const getParentRoute = () => rootRoute

const healthRoute = createRoute({
  getParentRoute,
  path: '/health',
  validateSearch: textsOf('report'),
  component: lazyRouteComponent(() => import('./health.tsx'), 'Health'),
})

const backupsRoute = createRoute({
  getParentRoute,
  path: '/backups',
  component: lazyRouteComponent(() => import('./backups.tsx'), 'Backups'),
})

const nodesRoute = createRoute({
  getParentRoute,
  path: '/nodes',
  component: lazyRouteComponent(() => import('./nodes.tsx'), 'Nodes'),
})

const versionsRoute = createRoute({
  getParentRoute,
  path: '/versions',
  validateSearch: textsOf('version'),
  component: lazyRouteComponent(() => import('./versions.tsx'), 'Versions'),
})

const auditRoute = createRoute({
  getParentRoute,
  path: '/audit',
  validateSearch: textsOf('event', 'clientId', 'subject', 'target', 'from', 'to'),
  component: lazyRouteComponent(() => import('./audit.tsx'), 'Audit'),
})

const settingsRoute = createRoute({
  getParentRoute,
  path: '/settings',
  validateSearch: textsOf('q', 'source'),
  component: lazyRouteComponent(() => import('./settings.tsx'), 'Settings'),
})

export const operationsRoutes = [
  healthRoute,
  backupsRoute,
  nodesRoute,
  versionsRoute,
  auditRoute,
  settingsRoute,
] as const
