import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { rootRoute } from '../../root.tsx'
import { oneOf, textOf } from '../../search.ts'

export const webhookStates = ['active', 'failing', 'paused', 'disabled'] as const
export const deliveryStates = ['pending', 'delivered', 'failed'] as const

export interface WebhooksSearch {
  status?: (typeof webhookStates)[number] | undefined
  owner?: string | undefined
}

export interface WebhookSearch {
  status?: (typeof deliveryStates)[number] | undefined
  event?: string | undefined
  since?: string | undefined
  until?: string | undefined
}

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/webhooks',
  validateSearch: ({ status, owner }: Record<string, unknown>): WebhooksSearch => ({
    status: oneOf(webhookStates, status),
    owner: textOf(owner),
  }),
  component: lazyRouteComponent(() => import('./list.tsx'), 'WebhookList'),
})

const newRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/webhooks/new',
  component: lazyRouteComponent(() => import('./register.tsx'), 'Register'),
})

const webhookRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/webhooks/$id',
  validateSearch: ({ status, event, since, until }: Record<string, unknown>): WebhookSearch => ({
    status: oneOf(deliveryStates, status),
    event: textOf(event),
    since: textOf(since),
    until: textOf(until),
  }),
  component: lazyRouteComponent(() => import('./webhook.tsx'), 'WebhookPage'),
})

const deliveryRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/webhooks/$id/deliveries/$deliveryId',
  component: lazyRouteComponent(() => import('./delivery.tsx'), 'DeliveryPage'),
})

export const webhookRoutes = [listRoute, newRoute, webhookRoute, deliveryRoute] as const
