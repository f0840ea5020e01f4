import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { invitationPath } from '../provider/http/endpoints.ts'

/**
 * Counts the events in this process that may have revoked tokens or reduced their scopes; each increment invalidates
 * all cached tokens.
 */
export interface RevocationEpoch {
  count: number
}

/**
 * Matches the routes that revoke or change a client, delete a user, change a user's role or password, lock a user, end
 * sessions or grants, or remove signing keys.
 */
const ending = new RegExp(
  `^(${[
    '(PATCH|DELETE) .*/api/clients/:id',
    'DELETE .*/users/:id',
    'POST .*/api/users/:id/invitation',
    'PATCH .*/api/users/:id/account',
    'DELETE .*/api/users/:id/(sessions|sessions/:sessionId|grants/:clientId)',
    'POST .*/api/signing-keys/rotate',
    `POST ${invitationPath}`,
  ].join('|')})$`,
)

/** Increments the count when a request to one of these routes succeeds, before the response is sent. */
export const trackRevocations = fastifyPlugin<{ revocations: RevocationEpoch }>(
  async (app, { revocations }) => {
    const count = (_request: FastifyRequest, reply: FastifyReply, payload: unknown, done: Done) => {
      if (reply.statusCode < 400) revocations.count++
      done(null, payload)
    }
    app.addHook('onRoute', (route: RouteOptions) => {
      const ends = [route.method].flat().some((method) => ending.test(`${method} ${route.url}`))
      if (ends) route.onSend = [route.onSend ?? [], count].flat()
    })
  },
  { name: 'trackRevocations' },
)

type Done = (error: null, payload: unknown) => void
