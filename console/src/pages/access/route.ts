import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { rootRoute } from '../../root.tsx'
import { oneOf, textOf } from '../../search.ts'
import { accountStatuses, type UserFilter } from './access-types.ts'

const clients = createRoute({
  getParentRoute: () => rootRoute,
  path: '/access/clients',
  component: lazyRouteComponent(() => import('./clients.tsx'), 'Clients'),
})
const newClient = createRoute({
  getParentRoute: () => rootRoute,
  path: '/access/clients/new',
  component: lazyRouteComponent(() => import('./new-client.tsx'), 'NewClient'),
})
const client = createRoute({
  getParentRoute: () => rootRoute,
  path: '/access/clients/$clientId',
  component: lazyRouteComponent(() => import('./client.tsx'), 'ClientPage'),
})
const keys = createRoute({
  getParentRoute: () => rootRoute,
  path: '/access/api-keys',
  component: lazyRouteComponent(() => import('./api-keys.tsx'), 'ApiKeys'),
})
const users = createRoute({
  getParentRoute: () => rootRoute,
  path: '/access/users',
  validateSearch: (search: Record<string, unknown>): UserFilter => ({
    q: textOf(search.q)?.slice(0, 100),
    status: oneOf(accountStatuses, search.status),
    role: oneOf(['admin', 'user'], search.role),
  }),
  component: lazyRouteComponent(() => import('./users.tsx'), 'Users'),
})
const user = createRoute({
  getParentRoute: () => rootRoute,
  path: '/access/users/$userId',
  component: lazyRouteComponent(() => import('./user.tsx'), 'UserPage'),
})
const signingKeys = createRoute({
  getParentRoute: () => rootRoute,
  path: '/access/signing-keys',
  component: lazyRouteComponent(() => import('./signing-keys.tsx'), 'SigningKeys'),
})

export const accessRoutes = [clients, newClient, client, keys, users, user, signingKeys]
