import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { instantOf } from '../../http/headers/instant.ts'
import { addLink } from '../../http/headers/vary.ts'
import { linkHeader } from '../../http/pagination.ts'
import { auditActor, authorOf, callerOf } from '../../http/policies/authenticate.ts'
import { preconditionOf } from '../../http/policies/conditional.ts'
import { Problem } from '../../http/problems/problem.ts'
import { requesterOf } from '../../http/requester.ts'
import { idempotentWrite } from '../../idempotency/idempotent-write.ts'
import { iso } from '../../storage/ids.ts'
import type { EventKinds } from '../event-types.ts'
import { find, hold } from '../registrations.ts'
import { WebhookParams, WebhookQuery } from '../schemas.ts'
import type { WebhooksOptions } from '../webhooks-options.ts'
import { addTest } from './enqueue.ts'
import { deliveryDetails, deliveryLog, findDelivery, shownTo } from './list.ts'
import { redeliver } from './redeliver.ts'
import { type Range, replay } from './replay.ts'
import * as schemas from './schemas.ts'

type Plugin = FastifyPluginAsyncTypebox<WebhooksOptions>

const path = '/api/webhooks/:id'
const tags = ['webhooks']
const reads = { scope: 'webhooks:read', cache: 'private', fields: true } as const
const writes = { scope: 'webhooks:write', cache: 'none' } as const

/** Routes for a webhook's delivery log and for manual sends: tests, redeliveries and replays. */
export const deliveryRoutes: Plugin = async (app, options) => {
  for (const routes of [listing, reading, testing, redelivering, replaying]) await routes(app, options)
}

const listing: Plugin = async (app, { db }) => {
  const about = { tags, operationId: 'listDeliveries', summary: "List a webhook's deliveries, newest first" }
  const input = { params: WebhookParams, querystring: schemas.DeliveryLogQuery }
  const schema = { ...about, ...input, response: { 200: Type.Array(schemas.DeliveryView) } }
  app.get(`${path}/deliveries`, { config: reads, schema }, async (request, reply) => {
    const webhook = await find(db.read, callerOf(request), request.params.id)
    const { deliveries, cursors } = await deliveryLog(db, webhook.id, request.query, requesterOf(request, reply))
    addLink(reply, linkHeader(`${app.prefix}/api/webhooks/${webhook.id}/deliveries`, request.query, cursors))
    return deliveries.map(shownTo(callerOf(request), webhook))
  })
}

const reading: Plugin = async (app, { db, access }) => {
  const summary = 'Read a delivery with its request and responses'
  const about = { tags, operationId: 'readDelivery', summary, params: schemas.ByDelivery }
  const schema = { ...about, querystring: WebhookQuery, response: { 200: schemas.DeliveryView } }
  app.get(`${path}/deliveries/:deliveryId`, { config: reads, schema }, async (request) => {
    const { id, deliveryId } = request.params
    const webhook = await find(db.read, callerOf(request), id)
    return deliveryDetails(db.read, access, callerOf(request), webhook, deliveryId)
  })
}

/** Returns the response headers of a 202: the URL of the result, and how long to wait before requesting it. */
const acceptedHeaders = (location: string) => ({ location, 'retry-after': '1' })

const testing: Plugin = async (app, options) => {
  const { db, queue, now, random, events } = options
  const about = { tags, operationId: 'testWebhook', summary: 'Send a test event to one webhook, even if it is paused' }
  const schema = {
    ...about,
    params: WebhookParams,
    body: schemas.newTest(events),
    response: { 202: schemas.DeliveryView },
  }
  const config = { ...writes, bodyOptional: true, problems: ['PRECONDITION_FAILED'] } as const
  app.post(`${path}/test`, { config, schema }, async (request, reply) => {
    const { id } = request.params
    const precondition = preconditionOf(request, false)
    return idempotentWrite(request, reply, db.write, async (tx: typeof db.read) => {
      const webhook = await hold(tx, callerOf(request), id, precondition)
      const test = { ...testOf(events, webhook, request.body.event), trace: request.trace }
      const deliveryId = await addTest(tx, { queue, random }, webhook, test, new Date(now()).toISOString())
      const headers = acceptedHeaders(`${app.prefix}/api/webhooks/${id}/deliveries/${deliveryId}`)
      return { status: 202, headers, body: await findDelivery(tx, id, deliveryId) }
    })
  })
}

/** Returns the event to send as a test: `webhook.test`, or the example of another event type. */
function testOf(events: EventKinds, { id, event }: { id: string; event: string }, type = 'webhook.test') {
  const example = events[type]?.example ?? {}
  return { type, body: type === 'webhook.test' ? { webhookId: id, event } : example }
}

const redelivering: Plugin = async (app, options) => {
  const about = { tags, operationId: 'redeliver', summary: 'Send a delivery again: the same event in new attempts' }
  const schema = { ...about, params: schemas.ByDelivery, response: { 202: schemas.DeliveryView } }
  const config = { ...writes, problems: ['PRECONDITION_FAILED', 'WEBHOOK_NOT_ACTIVE', 'PERMISSION_DENIED'] } as const
  app.post(`${path}/deliveries/:deliveryId/redeliver`, { config, schema }, async (request, reply) => {
    const { id, deliveryId } = request.params
    const wanted = { id, deliveryId, precondition: preconditionOf(request, false) }
    return idempotentWrite(request, reply, options.db.write, async (tx: typeof options.db.read) => ({
      status: 202,
      body: await redeliver(tx, options, authorOf(request), wanted, auditActor(request)),
      headers: acceptedHeaders(`${app.prefix}/api/webhooks/${id}/deliveries/${deliveryId}`),
    }))
  })
}

const replaying: Plugin = async (app, options) => {
  const { db, now, events } = options
  const about = { tags, operationId: 'replayWebhook', summary: 'Send the deliveries of a time range again' }
  const schema = { ...about, params: WebhookParams, body: schemas.newReplay(events), response: { 202: schemas.Replay } }
  const config = { ...writes, problems: ['PRECONDITION_FAILED', 'WEBHOOK_NOT_ACTIVE'] } as const
  app.post(`${path}/replay`, { config, schema }, async (request, reply) => {
    const { since, until, event, status } = request.body
    const chosen = { ...(event !== undefined && { event }), ...(status !== undefined && { status }) } as Partial<Range>
    const precondition = preconditionOf(request, false)
    const wanted = { id: request.params.id, precondition, ...rangeOf(since, until, now()), ...chosen }
    return idempotentWrite(request, reply, db.write, async (tx: typeof db.read) => ({
      status: 202,
      body: await replay(tx, options, authorOf(request), wanted, auditActor(request)),
      headers: acceptedHeaders(`${app.prefix}/api/webhooks/${wanted.id}/deliveries`),
    }))
  })
}

/**
 * Returns the time range of a replay, by default until now. Throws VALIDATION_ERROR unless both bounds are instants and
 * `since` is before `until`.
 */
function rangeOf(since: string, until: string | undefined, nowMs: number): Pick<Range, 'since' | 'until'> {
  // Includes deliveries created in the current millisecond.
  const range = { since: instantOf(since), until: until === undefined ? iso(nowMs + 1) : instantOf(until) }
  const unread = Object.entries(range).filter(([, instant]) => instant === undefined)
  const errors = unread.map(([field]) => ({
    field,
    message: 'must be a date or date-time such as 2026-11-21T00:00:00Z',
  }))
  const { since: from = '', until: to = '' } = range
  if (errors.length === 0 && from >= to) errors.push({ field: 'until', message: 'must be later than `since`' })
  if (errors.length > 0) throw new Problem('VALIDATION_ERROR', 'Some fields break a rule', { errors })
  return { since: from, until: to }
}
