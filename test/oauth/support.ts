import { randomBytes } from 'node:crypto'
import Fastify, { type FastifyInstance } from 'fastify'
import { builtIn } from '../../src/catalog/service.ts'
import { signingKeys } from '../../src/oauth/keys/signing-keys.ts'
import type { AuthorizationServerOptions } from '../../src/oauth/provider/configuration.ts'
import { type MountOptions, mountProvider } from '../../src/oauth/provider/http/fastify.ts'
import { authorizationServer } from '../../src/oauth/provider/provider.ts'
import { createUserParts } from '../../src/oauth/users/users.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer as makeSealer } from '../../src/storage/encryption.ts'

export const issuer = 'https://localhost:8443'
export const sealer = makeSealer(Buffer.alloc(32, 7), randomBytes)

/** Returns a manual clock: `now` returns epoch ms, and `pass` advances it by seconds. */
export function clock(start = Date.now()) {
  let at = start
  const now = () => at
  return { now, pass: (seconds: number) => (at += seconds * 1_000) }
}

export const branding = { productName: 'Plinth', accentColor: '#2552c8' }
/** A cost at which hashing a password takes almost no time. */
export const quickCost = { memory: 64, passes: 2, parallelism: 1 }

/** Creates login, invitations and pages as the service does. */
export const persons = (db: Database, now = Date.now) =>
  createUserParts({ db, sealer, issuer, now, random: randomBytes, branding, smtp: null, cost: quickCost })

/** Serves the authorization server over plain HTTP on a free port, with headers set by an earlier hook. */
export async function served(db: Database, options: Partial<AuthorizationServerOptions> = {}) {
  const keys = options.keys ?? (await signingKeys({ db, sealer, now: Date.now }))
  const failures: unknown[] = []
  const report = (error: unknown) => void failures.push(error)
  const { scopes } = builtIn
  const { login, frame } = persons(db)
  const about = { issuer, scopes, audience: issuer, db, sealer, keys, now: Date.now, accessTokenSeconds: 900, report }
  const fixed = { ...about, login, frame, address: () => '127.0.0.1' }
  const provider = authorizationServer({ ...fixed, ...options })
  return { keys, provider, failures, ...(await servedBy({ current: provider })) }
}

/** Like `served`, but for an existing authorization server. */
export async function servedBy(provider: MountOptions['provider']) {
  const app: FastifyInstance = Fastify()
  app.addHook('onRequest', async (request, reply) => {
    if (request.headers['x-refuse']) throw Object.assign(new Error('refused before'), { statusCode: 429 })
    reply.header('strict-transport-security', 'max-age=31536000').header('x-request-id', 'request-1')
  })
  await app.register(mountProvider, { provider, issuer, scopes: builtIn.scopes })
  const base = await app.listen({ host: '127.0.0.1', port: 0 })
  const post = (
    path: string,
    form: Record<string, string> | [string, string][],
    headers: Record<string, string> = {},
  ) => fetch(base + path, { method: 'POST', body: new URLSearchParams(form), headers })
  const token = async (form: Record<string, string>, headers?: Record<string, string>) => {
    const response = await post('/oauth/token', { grant_type: 'client_credentials', ...form }, headers)
    return { status: response.status, headers: response.headers, body: (await response.json()) as Answer }
  }
  return { base, post, token, close: () => app.close() }
}

export type Answer = Record<string, unknown> & { access_token: string }

/** Returns an Authorization header (RFC 6749 §2.3.1). */
export function basic(id: string, secret: string): Record<string, string> {
  const credentials = [id, secret].map(encodeURIComponent).join(':')
  return { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` }
}
