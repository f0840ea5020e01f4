import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { addLink } from '../http/headers/vary.ts'
import { linkHeader } from '../http/pagination.ts'
import { auditActor, callerOf } from '../http/policies/authenticate.ts'
import { mergePatch, validatedBy } from '../http/policies/body-parsing.ts'
import { checkPostPreconditions, preconditionOf } from '../http/policies/conditional.ts'
import { requesterOf } from '../http/requester.ts'
import { type InTransaction, idempotentWrite } from '../idempotency/idempotent-write.ts'
import type { Queryable } from '../storage/database.ts'
import { deliveryRoutes } from './deliveries/routes.ts'
import { listPage, WebhookListQuery, webhooksAmong } from './list.ts'
import { find, insert, newRegistration, refuseDuplicate, remove, webhookViewFor } from './registrations.ts'
import { checkRegistration, type RegistrationPatch, registrationErrors } from './rules.ts'
import * as schemas from './schemas.ts'
import { secretRoutes } from './secret-routes.ts'
import { StatisticsQuery, StatisticsView, statisticsOf } from './statistics.ts'
import { changeWebhook } from './update.ts'
import type { WebhooksOptions } from './webhooks-options.ts'

type Plugin = FastifyPluginAsyncTypebox<WebhooksOptions>

const path = '/api/webhooks'
const tags = ['webhooks']
const reads = { scope: 'webhooks:read', cache: 'private', fields: true } as const
const writes = { scope: 'webhooks:write', cache: 'none' } as const

/** Routes for webhooks, their secrets and deliveries, and the list of event types. */
export const webhooks: Plugin = async (app, options) => {
  const all = [creating, listing, measuring, reading, changing, removing, deliveryRoutes, secretRoutes, kinds]
  for (const routes of all) await routes(app, options)
}

const creating: Plugin = async (app, options) => {
  const about = { tags, operationId: 'createWebhook', summary: 'Register a webhook' }
  const schema = { ...about, body: schemas.newWebhook(options), response: { 201: schemas.CreatedWebhook } }
  const problems = ['DUPLICATE_RESOURCE', 'WEBHOOK_LIMIT_REACHED', 'CALLBACK_URL_BLOCKED'] as const
  const config = { ...writes, limit: 'webhooks', problems } as const
  const validatorCompiler = validatedBy(registrationErrors(options))
  app.post(path, { config, schema, validatorCompiler }, async (request, reply) => {
    const caller = callerOf(request)
    await checkRegistration(request.body, caller, options)
    checkPostPreconditions(request)
    const { row, shown } = newRegistration(options, caller, {
      version: options.versions.at(-1),
      ...request.body,
    })
    const write: InTransaction<Queryable> = (unit) =>
      options.db.write(unit).catch((error) => refuseDuplicate(options.db, error))
    return idempotentWrite(request, reply, write, async (tx) => {
      await insert(tx, row, options, auditActor(request))
      return { status: 201, headers: { location: `${app.prefix}${path}/${row.id}` }, body: shown }
    })
  })
}

const listing: Plugin = async (app, { db, sealer }) => {
  const about = { tags, operationId: 'listWebhooks', summary: 'List webhooks, newest first' }
  const schema = { ...about, querystring: WebhookListQuery, response: { 200: Type.Array(schemas.WebhookView) } }
  app.get(path, { config: reads, schema }, async (request, reply) => {
    const { rows, cursors } = await listPage(db, callerOf(request), request.query, requesterOf(request, reply))
    addLink(reply, linkHeader(app.prefix + path, request.query, cursors))
    return rows.map(webhookViewFor(sealer, callerOf(request)))
  })
}

const measuring: Plugin = async (app, { db, now }) => {
  const summary = 'Read the success rates and latencies of webhooks in the last 24 hours'
  const about = { tags, operationId: 'readWebhookStatistics', summary }
  const response = { 200: Type.Array(StatisticsView) }
  const schema = { ...about, querystring: StatisticsQuery, response }
  app.get(`${path}/statistics`, { config: reads, schema }, async (request) => {
    const ids = request.query.ids?.split(',')
    return statisticsOf(db, await webhooksAmong(db, callerOf(request), ids), now())
  })
}

const reading: Plugin = async (app, { db, sealer }) => {
  const about = { tags, operationId: 'readWebhook', summary: 'Read a webhook', params: schemas.WebhookParams }
  const schema = { ...about, querystring: schemas.WebhookQuery, response: { 200: schemas.WebhookView } }
  app.get(`${path}/:id`, { config: reads, schema }, async (request) =>
    webhookViewFor(sealer, callerOf(request))(await find(db.read, callerOf(request), request.params.id)),
  )
}

const changing: Plugin = async (app, options) => {
  const about = {
    tags,
    operationId: 'patchWebhook',
    summary: 'Change, pause or enable a webhook',
    params: schemas.WebhookParams,
  }
  const body = schemas.webhookPatch(options)
  const schema = { ...about, body, response: { 200: schemas.WebhookView } }
  const problems = ['DUPLICATE_RESOURCE', 'CALLBACK_URL_BLOCKED', 'PERMISSION_DENIED'] as const
  const config = { ...writes, accepts: [mergePatch], minimal: true, problems }
  const validatorCompiler = validatedBy(registrationErrors(options))
  app.patch(`${path}/:id`, { config, schema, validatorCompiler }, async (request) => {
    const caller = callerOf(request)
    const named = Object.entries(request.body).filter(([name]) => Object.hasOwn(body.properties, name))
    const patch: RegistrationPatch = Object.fromEntries(named)
    const precondition = preconditionOf(request, options.requireIfMatch ?? false)
    await checkRegistration(patch, caller, options)
    const changed = await changeWebhook(options, caller, request.params.id, patch, precondition, auditActor(request))
    return webhookViewFor(options.sealer, caller)(changed)
  })
}

const removing: Plugin = async (app, options) => {
  const schema = { tags, operationId: 'deleteWebhook', summary: 'Delete a webhook', params: schemas.WebhookParams }
  app.delete(`${path}/:id`, { config: writes, schema }, async (request, reply) => {
    const precondition = preconditionOf(request, options.requireIfMatch ?? false)
    await remove(options, callerOf(request), request.params.id, precondition, auditActor(request))
    return reply.code(204).send()
  })
}

const kinds: Plugin = async (app, { events }) => {
  const about = { tags, operationId: 'listEventTypes', summary: 'List the event types' }
  const schema = { ...about, querystring: schemas.WebhookQuery, response: { 200: Type.Array(schemas.EventTypeView) } }
  const all = schemas.eventTypeViews(events)
  app.get('/api/event-types', { config: reads, schema }, async () => all)
}
