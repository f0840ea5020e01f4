import { builtIn } from '../../catalog/service.ts'
import { createClient } from '../../oauth/clients/clients.ts'
import { type Call, caller, jsonOf } from './api.ts'
import type { OwnService } from './start-own.ts'

/** A client and its access token. */
export interface DemoAccess {
  clientId: string
  expiresInSeconds: number
  call: Call
}

const scopes = [
  ...['reports:read', 'reports:write', 'webhooks:read'],
  ...['users:read', 'users:write', 'products:write', 'books:write'],
]

/** Registers a client and gets a token for it (RFC 6749 §4.4). */
export async function grantAccess(
  { service: { db, sealer }, send }: OwnService,
  signal: AbortSignal,
): Promise<DemoAccess> {
  const settings = { name: 'Demo', scopes, grants: ['client_credentials'] }
  const { client, secret } = await createClient(db, sealer, builtIn.scopes, settings)
  const credentials = Buffer.from(`${client.id}:${secret}`).toString('base64')
  const authenticated = caller(send, signal, { authorization: `Basic ${credentials}` })
  const response = await authenticated('POST', '/oauth/token', { form: { grant_type: 'client_credentials' } })
  const { access_token, expires_in } = await jsonOf<{ access_token: string; expires_in: number }>(response)
  const call = caller(send, signal, { authorization: `Bearer ${access_token}` })
  return { clientId: client.id, expiresInSeconds: expires_in, call }
}
