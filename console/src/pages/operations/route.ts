import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { rootRoute } from '../../root.tsx'

// A search parameter such as subject=42 is parsed as a number.
const text = (value: unknown): string | undefined =>
  typeof value === 'number' || (typeof value === 'string' && value !== '') ? String(value) : undefined
const textsOf =
  <const Name extends string>(...names: Name[]) =>
  (search: Record<string, unknown>) =>
    Object.fromEntries(names.map((name) => [name, text(search[name])])) as { [Key in Name]?: string }

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
