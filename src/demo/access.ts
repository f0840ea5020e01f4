import { revokeClient } from '../auth/client-changes.ts'
import { createClient } from '../auth/clients.ts'
import { builtIn } from '../built-in.ts'
import type { Config } from '../config.ts'
import { operator } from '../db/audit.ts'
import { openStores } from '../stores.ts'
import { type Call, caller, jsonOf } from './api.ts'
import type { Defer } from './ending.ts'
import type { Reached } from './reach.ts'

/** A client of this run and what it may do with its token. */
export interface Access {
  clientId: string
  expiresInSeconds: number
  call: Call
}

const scopes = [
  ...['reports:read', 'reports:write', 'webhooks:read'],
  ...['users:read', 'users:write', 'products:write', 'books:write'],
]

/** Registers a client that lives as long as this run, and gets a token for it (RFC 6749 §4.4). */
export async function access(reached: Reached, config: Config, signal: AbortSignal, defer: Defer): Promise<Access> {
  const { db, sealer } = reached.own ?? (await beside(config, defer))
  const wanted = { name: 'Demo', scopes, grants: ['client_credentials'] }
  const { client, secret } = await createClient(db, sealer, builtIn.scopes, wanted)
  defer(() => revokeClient({ db, sealer, actor: operator }, client.id))
  const credentials = Buffer.from(`${client.id}:${secret}`).toString('base64')
  const ask = caller(reached.send, signal, { authorization: `Basic ${credentials}` })
  const answer = await ask('POST', '/oauth/token', { form: { grant_type: 'client_credentials' } }).catch((cause) => {
    const hint = reached.own ? '' : '\n  Does the running service use the same DATABASE_URL and PLINTH_MASTER_KEY?'
    throw new Error(`${cause.message}${hint}`, { cause })
  })
  const { access_token, expires_in } = await jsonOf<{ access_token: string; expires_in: number }>(answer)
  const call = caller(reached.send, signal, { authorization: `Bearer ${access_token}` })
  return { clientId: client.id, expiresInSeconds: expires_in, call }
}

/** The stores of a service that runs in another process. */
async function beside(config: Config, defer: Defer) {
  const stores = await openStores(config)
  defer(() => stores.db.close())
  return stores
}
