import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { auditActor, callerOf } from '../http/policies/authenticate.ts'
import { checkPostPreconditions, preconditionOf } from '../http/policies/conditional.ts'
import { idempotentWrite } from '../idempotency/idempotent-write.ts'
import { ownerOf, webhookViewOf } from './registrations.ts'
import { rotateAccountSecret, rotateSecret } from './rotate-secret.ts'
import * as schemas from './schemas.ts'
import { accountAad, storedAccountSecret, type WebhookKeys } from './secrets.ts'
import type { WebhooksOptions } from './webhooks-options.ts'

type Plugin = FastifyPluginAsyncTypebox<WebhooksOptions>

const path = '/api/webhooks'
const tags = ['webhooks']
const writes = { scope: 'webhooks:write', cache: 'none' } as const

/** Routes for the secrets that sign calls: each webhook's own secret, and the account's for one-off callback URLs. */
export const secretRoutes: Plugin = async (app, options) => {
  for (const routes of [rotating, readingOfAccount, rotatingOfAccount]) await routes(app, options)
}

const rotating: Plugin = async (app, options) => {
  const summary = 'Rotate the secret of a webhook; the old one also signs for another 24 hours'
  const about = { tags, operationId: 'rotateWebhookSecret', summary, params: schemas.WebhookParams }
  const schema = { ...about, body: schemas.Rotation, response: { 200: schemas.CreatedWebhook } }
  const problems = ['PRECONDITION_FAILED', 'PRECONDITION_REQUIRED', 'SECRET_ROTATION_IN_PROGRESS'] as const
  const config = { ...writes, bodyOptional: true, problems }
  app.post(`${path}/:id/rotate-secret`, { config, schema }, async (request, reply) => {
    const { immediate = false } = request.body
    const precondition = preconditionOf(request, options.requireIfMatch ?? false)
    const wanted = { id: request.params.id, precondition, immediate, actor: auditActor(request) }
    return idempotentWrite(request, reply, options.db.write, async (tx: typeof options.db.read) => {
      const { webhook, secret } = await rotateSecret(tx, options, callerOf(request), wanted)
      return { status: 200, headers: {}, body: { ...webhookViewOf(options.sealer)(webhook), secret } }
    })
  })
}

const readingOfAccount: Plugin = async (app, { db, sealer, now, random }) => {
  const about = { tags, operationId: 'readWebhookSecret', summary: "Read the account's webhook secret" }
  const schema = { ...about, response: { 200: schemas.Secret } }
  const config = { scope: 'webhooks:read', cache: 'none' } as const
  app.get(`${path}/secret`, { config, schema }, async (request) => {
    const owner = ownerOf(callerOf(request))
    const { secretSealed, previousSecretExpiresAt: end } = await storedAccountSecret(db, sealer, owner, now, random)
    return {
      secret: sealer.open(secretSealed, accountAad(owner)),
      ...(end !== null && { previousSecretExpiresAt: end }),
    }
  })
}

const rotatingOfAccount: Plugin = async (app, options) => {
  const summary = "Rotate the account's webhook secret; the old one also signs for another 24 hours"
  const about = { tags, operationId: 'rotateAccountSecret', summary }
  const schema = { ...about, body: schemas.Rotation, response: { 200: schemas.Secret } }
  const config = {
    ...writes,
    bodyOptional: true,
    problems: ['PRECONDITION_FAILED', 'SECRET_ROTATION_IN_PROGRESS'],
  } as const
  app.post(`${path}/secret/rotate`, { config, schema }, async (request, reply) => {
    const { immediate = false } = request.body
    // The secret has no entity tag, so preconditions are evaluated as they are for a list.
    checkPostPreconditions(request)
    const rotation = { immediate, actor: auditActor(request) }
    return idempotentWrite(request, reply, options.db.write, async (tx: typeof options.db.read) => ({
      ...{ status: 200, headers: {} },
      body: await rotateAccountSecret(tx, options, ownerOf(callerOf(request)), rotation),
    }))
  })
}

/** Serves the public key for `v1a` signatures. This is a separate plugin, because its path has no version prefix. */
export const webhookKeySet: FastifyPluginAsyncTypebox<{ keys: WebhookKeys }> = async (app, { keys }) => {
  const about = { tags, operationId: 'readWebhookKeys', summary: 'Read the public keys that verify webhook signatures' }
  const schema = { ...about, response: { 200: schemas.KeySet } }
  const config = { scope: 'public', cache: 'public' } as const
  app.get('/.well-known/webhook-keys.json', { config, schema }, async () => keys.jwks)
}
