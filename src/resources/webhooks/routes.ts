import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import type { Queryable } from '../../db/open.ts'
import { actorOf } from '../../http/actor.ts'
import { judgeAddition, preconditionOf } from '../../http/conditional.ts'
import type { AddressPolicy, LookupAll } from '../../http/guard.ts'
import { callerOf } from '../../http/identify.ts'
import { once, type Write } from '../../http/once.ts'
import { limitOf, linkHeader } from '../../http/paging.ts'
import { deliveryLog } from './deliveries.ts'
import type { EventKinds } from './event-types.ts'
import { page } from './listing.ts'
import {
  find,
  insert,
  newRegistration,
  ownerOf,
  refuseDuplicate,
  remove,
  type Store,
  shownBy,
} from './registrations.ts'
import { checkRegistration } from './rules.ts'
import * as schemas from './schemas.ts'
import { accountSecret, type WebhookKeys } from './secrets.ts'

export interface WebhooksOptions extends Store {
  /** What can be listened for. */
  events: EventKinds
  /** Which addresses may be registered. */
  policy: AddressPolicy
  lookup?: LookupAll
  requireIfMatch?: boolean
}

type Plugin = FastifyPluginAsyncTypebox<WebhooksOptions>

const path = '/api/webhooks'
const tags = ['webhooks']
const reads = { scope: 'webhooks:read', cache: 'private', fields: true } as const
const writes = { scope: 'webhooks:write', cache: 'none' } as const

/** Registrations, their delivery logs, the kinds of events and the caller's account secret. */
export const webhooks: Plugin = async (app, options) => {
  for (const routes of [creating, listing, reading, removing, deliveries, secret, kinds]) await routes(app, options)
}

const creating: Plugin = async (app, options) => {
  const about = { tags, operationId: 'createWebhook', summary: 'Register a webhook' }
  const schema = { ...about, body: schemas.newWebhook(options.events), response: { 201: schemas.CreatedWebhook } }
  const config = { ...writes, limit: 'webhooks', problems: ['DUPLICATE_RESOURCE', 'CALLBACK_URL_BLOCKED'] } as const
  app.post(path, { config, schema }, async (request, reply) => {
    const caller = callerOf(request)
    await checkRegistration(request.body, caller, options)
    judgeAddition(request)
    const { row, shown } = newRegistration(options, caller, request.body)
    const write: Write<Queryable> = (unit) =>
      options.db.write(unit).catch((error) => refuseDuplicate(options.db, error))
    return once(request, reply, write, async (tx) => {
      await insert(tx, row, options, actorOf(request))
      return { status: 201, headers: { location: `${app.prefix}${path}/${row.id}` }, body: shown }
    })
  })
}

const listing: Plugin = async (app, { db, sealer }) => {
  const about = { tags, operationId: 'listWebhooks', summary: 'List webhooks, newest first' }
  const schema = { ...about, querystring: schemas.Paged, response: { 200: Type.Array(schemas.Webhook) } }
  app.get(path, { config: reads, schema }, async (request, reply) => {
    const { rows, cursors } = await page(db, callerOf(request), request.query)
    reply.header('link', linkHeader(app.prefix + path, request.query, cursors))
    return rows.map(shownBy(sealer))
  })
}

const reading: Plugin = async (app, { db, sealer }) => {
  const about = { tags, operationId: 'readWebhook', summary: 'Read a webhook', params: schemas.ById }
  const schema = { ...about, querystring: schemas.Narrowed, response: { 200: schemas.Webhook } }
  app.get(`${path}/:id`, { config: reads, schema }, async (request) =>
    shownBy(sealer)(await find(db, callerOf(request), request.params.id)),
  )
}

const removing: Plugin = async (app, options) => {
  const schema = { tags, operationId: 'removeWebhook', summary: 'Delete a webhook', params: schemas.ById }
  app.delete(`${path}/:id`, { config: writes, schema }, async (request, reply) => {
    const demands = preconditionOf(request, options.requireIfMatch ?? false)
    await remove(options, callerOf(request), request.params.id, demands, actorOf(request))
    return reply.code(204).send()
  })
}

const deliveries: Plugin = async (app, { db }) => {
  const about = { tags, operationId: 'listDeliveries', summary: "List a webhook's deliveries, newest first" }
  const input = { params: schemas.ById, querystring: schemas.Limited }
  const schema = { ...about, ...input, response: { 200: Type.Array(schemas.Delivery) } }
  app.get(`${path}/:id/deliveries`, { config: reads, schema }, async (request) => {
    const { id } = await find(db, callerOf(request), request.params.id)
    return deliveryLog(db, id, limitOf(request.query.limit))
  })
}

const secret: Plugin = async (app, { db, sealer, now, random }) => {
  const about = { tags, operationId: 'readWebhookSecret', summary: "Read the account's webhook secret" }
  const schema = { ...about, response: { 200: schemas.Secret } }
  app.get(`${path}/secret`, { config: { ...reads, cache: 'none', fields: false }, schema }, async (request) => ({
    secret: await accountSecret(db, sealer, ownerOf(callerOf(request)), now, random),
  }))
}

const kinds: Plugin = async (app, { events }) => {
  const about = { tags, operationId: 'listEventTypes', summary: 'List the kinds of events' }
  const schema = { ...about, querystring: schemas.Narrowed, response: { 200: Type.Array(schemas.EventKind) } }
  const all = Object.entries(events).map(([event, { description, example }]) => ({ event, description, example }))
  app.get('/api/event-types', { config: reads, schema }, async () => all)
}

/** The public key of `v1a` signatures; outside the versions, so a plugin of its own. */
export const webhookKeySet: FastifyPluginAsyncTypebox<{ keys: WebhookKeys }> = async (app, { keys }) => {
  const about = { tags, operationId: 'readWebhookKeys', summary: 'Read the public keys of webhook signatures' }
  const schema = { ...about, response: { 200: schemas.KeySet } }
  const config = { scope: 'public', cache: 'public' } as const
  app.get('/.well-known/webhook-keys.json', { config, schema }, async () => keys.jwks)
}
