import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { variantWith } from '../../http/headers/entity-tags.ts'
import { addLink } from '../../http/headers/vary.ts'
import { linkHeader } from '../../http/pagination.ts'
import { auditActor } from '../../http/policies/authenticate.ts'
import { mergePatch } from '../../http/policies/body-parsing.ts'
import { checkPostPreconditions, preconditionOf } from '../../http/policies/conditional.ts'
import { Problem } from '../../http/problems/problem.ts'
import { idempotentWrite } from '../../idempotency/idempotent-write.ts'
import type { ApiKey } from '../../storage/tables/administration.ts'
import { unrevokedPage } from '../active-page.ts'
import * as schemas from '../admin-schemas.ts'
import type { AdminOptions } from '../clients/routes.ts'
import { type ApiKeyStore, addApiKey, draftApiKey, findApiKey, revokeApiKey, updateApiKey } from './api-keys.ts'

type Plugin = FastifyPluginAsyncTypebox<AdminOptions>

const path = '/api/keys'
const tags = ['administration']
const reads = { scope: 'admin', cache: 'private', fields: true } as const
const writes = { scope: 'admin', cache: 'none' } as const

/**
 * Routes for API keys. A key determines whose limits a request counts against, but grants no access. `plinth keys`
 * calls the same functions.
 */
export const apiKeyRoutes: Plugin = async (app, options) => {
  for (const routes of [creating, listing, reading, changing, removing]) await routes(app, options)
}

const storeFor = ({ db, sealer, now, random }: AdminOptions, request: FastifyRequest): ApiKeyStore => ({
  ...{ db, sealer, now, random },
  actor: auditActor(request),
})

/** Returns the public fields of a key, including the revision and `_variant`, from which the ETag is computed. */
const representation = ({ keyHash: _, revokedAt: __, ...key }: ApiKey) => ({ ...key, ...variantWith(key.lastUsedAt) })

const creating: Plugin = async (app, options) => {
  const about = { tags, operationId: 'createApiKey', summary: 'Create an API key' }
  const schema = { ...about, body: schemas.NewApiKey, response: { 201: schemas.CreatedApiKey } }
  app.post(path, { config: writes, schema }, async (request, reply) => {
    const store = storeFor(options, request)
    const draft = draftApiKey(store, request.body)
    checkPostPreconditions(request)
    return idempotentWrite(request, reply, options.db.write, async (tx) => {
      await addApiKey(tx, store, draft)
      const headers = { location: `${app.prefix}${path}/${draft.apiKey.id}` }
      return { status: 201, headers, body: { ...representation(draft.apiKey), key: draft.key } }
    })
  })
}

const listing: Plugin = async (app, { db }) => {
  const about = { tags, operationId: 'listApiKeys', summary: 'List the API keys, newest first' }
  const schema = { ...about, querystring: schemas.Paged, response: { 200: Type.Array(schemas.ApiKeyView) } }
  app.get(path, { config: reads, schema }, async (request, reply) => {
    const { rows, cursors } = await unrevokedPage<ApiKey>(db, 'apiKeys', 'keys', request.query)
    addLink(reply, linkHeader(app.prefix + path, request.query, cursors))
    return rows.map(representation)
  })
}

const reading: Plugin = async (app, { db }) => {
  const about = { tags, operationId: 'readApiKey', summary: 'Read an API key', params: schemas.ById }
  const schema = { ...about, querystring: schemas.Narrowed, response: { 200: schemas.ApiKeyView } }
  app.get(`${path}/:id`, { config: reads, schema }, async (request) => {
    const key = await findApiKey(db, request.params.id)
    if (key === undefined) throw new Problem('RESOURCE_NOT_FOUND', 'There is no such key')
    return representation(key)
  })
}

const changing: Plugin = async (app, options) => {
  const about = { tags, operationId: 'patchApiKey', summary: 'Change an API key', params: schemas.ById }
  const schema = { ...about, body: schemas.ApiKeyPatch, response: { 200: schemas.ApiKeyView } }
  app.patch(`${path}/:id`, { config: { ...writes, accepts: [mergePatch], minimal: true }, schema }, async (request) => {
    const { name, rate, quota, expiresAt } = request.body
    const changes = Object.entries({ name, rate, quota, expiresAt }).filter(([, value]) => value !== undefined)
    const precondition = preconditionOf(request, options.requireIfMatch)
    return representation(
      await updateApiKey(storeFor(options, request), request.params.id, Object.fromEntries(changes), precondition),
    )
  })
}

const removing: Plugin = async (app, options) => {
  const schema = { tags, operationId: 'deleteApiKey', summary: 'Revoke an API key permanently', params: schemas.ById }
  app.delete(`${path}/:id`, { config: writes, schema }, async (request, reply) => {
    const precondition = preconditionOf(request, options.requireIfMatch)
    await revokeApiKey(storeFor(options, request), request.params.id, precondition)
    return reply.code(204).send()
  })
}
