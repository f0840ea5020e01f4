import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { invitationPath } from '../provider/http/endpoints.ts'

/**
 * How often this process did what may have ended tokens, or taken scopes from them: what was known of a token before is
 * looked up again.
 */
export interface Endings {
  count: number
}

/** A client is revoked or changed, a user removed, given another role or a new password. */
const ending = new RegExp(
  `^((PATCH|DELETE) .*/api/clients/:id|DELETE .*/users/:id|POST .*/api/users/:id/invitation|POST ${invitationPath})$`,
)

/** Counts the requests that may end tokens once they are done and before they are answered. */
export const trackRevocations = fastifyPlugin<{ endings: Endings }>(
  async (app, { endings }) => {
    const count = (_request: FastifyRequest, reply: FastifyReply, payload: unknown, done: Done) => {
      if (reply.statusCode < 400) endings.count++
      done(null, payload)
    }
    app.addHook('onRoute', (route: RouteOptions) => {
      const ends = [route.method].flat().some((method) => ending.test(`${method} ${route.url}`))
      if (ends) route.onSend = [route.onSend ?? [], count].flat()
    })
  },
  { name: 'countEndings' },
)

type Done = (error: null, payload: unknown) => void
