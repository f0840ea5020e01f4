import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { rootRoute } from '../../root.tsx'
import { oneOf, textsOf } from '../../search.ts'

export const kinds = ['client', 'subject', 'address'] as const
export type Kind = (typeof kinds)[number]
export const windows = ['minute', 'hour', 'day'] as const
export type Window = (typeof windows)[number]

/** The filters of the list of requests. */
export interface RequestFilter {
  clientId?: string
  subject?: string
  address?: string
  status?: string
}

const trafficRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/traffic',
  validateSearch: (search: Record<string, unknown>): { by?: Kind; window?: Window } => {
    const [by, window] = [oneOf(kinds, search.by), oneOf(windows, search.window)]
    return { ...(by && { by }), ...(window && { window }) }
  },
  component: lazyRouteComponent(() => import('./traffic.tsx'), 'Traffic'),
})

const requestsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/requests',
  validateSearch: textsOf('clientId', 'subject', 'address', 'status'),
  component: lazyRouteComponent(() => import('./requests.tsx'), 'Requests'),
})

const requestRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/requests/$requestId',
  component: lazyRouteComponent(() => import('./request.tsx'), 'RequestDetails'),
})

export const trafficRoutes = [trafficRoute, requestsRoute, requestRoute] as const
