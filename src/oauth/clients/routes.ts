import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { variantWith } from '../../http/headers/entity-tags.ts'
import { addLink } from '../../http/headers/vary.ts'
import { linkHeader } from '../../http/pagination.ts'
import { auditActor } from '../../http/policies/authenticate.ts'
import { mergePatch } from '../../http/policies/body-parsing.ts'
import { checkPostPreconditions, preconditionOf } from '../../http/policies/conditional.ts'
import { Problem } from '../../http/problems/problem.ts'
import { type InTransaction, idempotentWrite } from '../../idempotency/idempotent-write.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import type { RandomBytes } from '../../storage/ids.ts'
import type { Client } from '../../storage/tables/tables.ts'
import { unrevokedPage } from '../active-page.ts'
import * as schemas from '../admin-schemas.ts'
import { responseTypesOf } from '../provider/client-adapter.ts'
import type { Scopes } from '../tokens/scopes.ts'
import { fromRow, type RegisteredClient } from './client-rows.ts'
import { addClient, draftClient, findClient, refuseTakenId } from './clients.ts'
import { type ClientChange, type ClientChanges, revokeClient, rotateClientSecret, updateClient } from './update.ts'
import type { ClientSettings } from './validate.ts'

/** Options for the administration routes. */
export interface AdminOptions {
  db: Database
  sealer: Sealer
  now: () => number
  random: RandomBytes
  requireIfMatch: boolean
  /** All scopes of the service. */
  scopes: Scopes
}

type Plugin = FastifyPluginAsyncTypebox<AdminOptions>

const path = '/api/clients'
const tags = ['administration']
const reads = { scope: 'admin', cache: 'private', fields: true } as const
const writes = { scope: 'admin', cache: 'none' } as const

/**
 * Routes to register, change and revoke OAuth clients, and to rotate their secrets. `plinth clients` calls the same
 * functions.
 */
export const clientRoutes: Plugin = async (app, options) => {
  for (const routes of [creating, listing, reading, changing, rotating, removing]) await routes(app, options)
}

const changeFor = ({ db, sealer, now, random }: AdminOptions, request: FastifyRequest): ClientChange => ({
  ...{ db, sealer, now, random },
  actor: auditActor(request),
})

const preconditionFor = (request: FastifyRequest, { requireIfMatch }: AdminOptions) =>
  preconditionOf(request, requireIfMatch)

/** Returns the public fields of a client, including the revision and `_variant`, from which the ETag is computed. */
function representation({ secretHash, revokedAt: _, ...client }: RegisteredClient) {
  const type = secretHash === null ? ('public' as const) : ('confidential' as const)
  const shown = { ...client, type, responseTypes: responseTypesOf(client.grants) as string[] }
  return { ...shown, ...variantWith(client.lastUsedAt) }
}

const creating: Plugin = async (app, options) => {
  const about = { tags, operationId: 'createOAuthClient', summary: 'Register a client' }
  const schema = { ...about, body: schemas.NewClientBody, response: { 201: schemas.CreatedClient } }
  const config = { ...writes, problems: ['DUPLICATE_RESOURCE'] } as const
  app.post(path, { config, schema }, async (request, reply) => {
    const { type, ...wanted } = request.body
    const { db, sealer, ...sources } = changeFor(options, request)
    const input = { ...wanted, ...(type === 'public' && { secret: null }) }
    const draft = draftClient(sealer, options.scopes, input, sources)
    const { row, secret } = draft
    checkPostPreconditions(request)
    const write: InTransaction<Queryable> = (unit) => db.write(unit).catch((error) => refuseTakenId(db, row.id, error))
    return idempotentWrite(request, reply, write, async (tx) => {
      await addClient(tx, sealer, draft, sources)
      const body = { ...representation(fromRow(row)), ...(secret !== null && { secret }) }
      return { status: 201, headers: { location: `${app.prefix}${path}/${row.id}` }, body }
    })
  })
}

const listing: Plugin = async (app, { db }) => {
  const about = { tags, operationId: 'listOAuthClients', summary: 'List the clients, newest first' }
  const schema = { ...about, querystring: schemas.Paged, response: { 200: Type.Array(schemas.ClientView) } }
  app.get(path, { config: reads, schema }, async (request, reply) => {
    const { rows, cursors } = await unrevokedPage<Client>(db, 'clients', 'clients', request.query)
    addLink(reply, linkHeader(app.prefix + path, request.query, cursors))
    return rows.map((row) => representation(fromRow(row)))
  })
}

const reading: Plugin = async (app, { db }) => {
  const about = { tags, operationId: 'readOAuthClient', summary: 'Read a client', params: schemas.ById }
  const schema = { ...about, querystring: schemas.Narrowed, response: { 200: schemas.ClientView } }
  app.get(`${path}/:id`, { config: reads, schema }, async (request) => {
    const client = await findClient(db, request.params.id)
    if (client === undefined) throw new Problem('RESOURCE_NOT_FOUND', 'There is no such client')
    return representation(client)
  })
}

const changing: Plugin = async (app, options) => {
  const about = { tags, operationId: 'patchOAuthClient', summary: 'Change a client', params: schemas.ById }
  const schema = { ...about, body: schemas.ClientPatch, response: { 200: schemas.ClientView } }
  app.patch(`${path}/:id`, { config: { ...writes, accepts: [mergePatch], minimal: true }, schema }, async (request) => {
    const settings = withDefaults(request.body)
    return representation(
      await updateClient(
        changeFor(options, request),
        options.scopes,
        request.params.id,
        settings,
        preconditionFor(request, options),
      ),
    )
  })
}

const defaults: Partial<ClientSettings> = {
  redirectUris: [],
  postLogoutRedirectUris: [],
  firstParty: false,
  trusted: false,
  introspectsOthers: false,
  rate: null,
  quota: null,
}

/** Applies JSON Merge Patch semantics (RFC 7396): null removes a value and restores its default. */
function withDefaults(patch: Static<typeof schemas.ClientPatch>): ClientChanges {
  const known = Object.keys(schemas.ClientPatch.properties).filter((name) => name in patch)
  const values = known.map((name) => [
    name,
    patch[name as keyof typeof patch] ?? defaults[name as keyof typeof defaults] ?? null,
  ])
  return Object.fromEntries(values)
}

const rotating: Plugin = async (app, options) => {
  const about = {
    tags,
    operationId: 'rotateOAuthClientSecret',
    summary: 'Give a client a new secret; the old one stops working',
  }
  const schema = { ...about, params: schemas.ById, response: { 200: schemas.CreatedClient } }
  const config = {
    ...writes,
    requestHeaders: ['If-Match', 'If-None-Match', 'If-Unmodified-Since'],
    problems: ['PRECONDITION_FAILED', 'PRECONDITION_REQUIRED', 'VALIDATION_ERROR'],
  } as const
  app.post(`${path}/:id/rotate-secret`, { config, schema }, async (request, reply) => {
    const precondition = preconditionFor(request, options)
    return idempotentWrite(request, reply, options.db.write, async (tx) => {
      const within: typeof options.db.write = (unit) => unit(tx)
      const { client, secret } = await rotateClientSecret(
        changeFor(options, request),
        request.params.id,
        precondition,
        within,
      )
      return { status: 200, headers: {}, body: { ...representation(client), secret } }
    })
  })
}

const removing: Plugin = async (app, options) => {
  const schema = {
    tags,
    operationId: 'deleteOAuthClient',
    summary: 'Revoke a client permanently',
    params: schemas.ById,
  }
  app.delete(`${path}/:id`, { config: writes, schema }, async (request, reply) => {
    await revokeClient(changeFor(options, request), request.params.id, preconditionFor(request, options))
    return reply.code(204).send()
  })
}
