import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import type { Database, Queryable } from '../../storage/database.ts'
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

/** Increments the count after each successful request to a route that matches `ending`, before the response is sent. */
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

/** A database, and a function that marks a transaction as one that may revoke tokens. */
export interface RevokingWrites {
  db: Database
  revoke: (tx: Queryable) => void
}

/** Increments the count after each commit of a marked transaction. */
export function revokingWrites(db: Database, revocations: RevocationEpoch): RevokingWrites {
  // SQLite transactions share one object: if a marked one fails, the next commit increments the count unnecessarily.
  const marked = new WeakSet<Queryable>()
  const write: Database['write'] = async (unit) => {
    let used: Queryable | undefined
    const result = await db.write((tx) => {
      used = tx
      return unit(tx)
    })
    if (used && marked.delete(used)) revocations.count++
    return result
  }
  return { db: { ...db, write }, revoke: (tx) => void marked.add(tx) }
}

type Done = (error: null, payload: unknown) => void
