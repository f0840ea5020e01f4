import type { Adapter, AdapterPayload } from 'oidc-provider'
import type { Database } from '../db/open.ts'
import { findClient, type RegisteredClient } from './clients.ts'
import { isNativeUri } from './redirect-uris.ts'

/** The clients as oidc-provider reads them; it may not change them. */
export function clientRecords(db: Database): Adapter {
  const none = async () => undefined
  const readOnly = async () => {
    throw new Error('Clients are registered and revoked by the service, not through the provider')
  }
  const find = async (id: string) => {
    const client = await findClient(db, id)
    return client && metadata(client)
  }
  return {
    find,
    findByUid: none,
    findByUserCode: none,
    upsert: readOnly,
    consume: readOnly,
    destroy: readOnly,
    revokeByGrantId: readOnly,
  }
}

/** A client in the terms of RFC 7591 §2; the provider lets either way of sending a secret pass for the other. */
function metadata({ id, name, secretHash, scopes, grants, redirectUris }: RegisteredClient): AdapterPayload {
  return {
    client_id: id,
    client_name: name,
    client_secret: secretHash ?? undefined,
    token_endpoint_auth_method: secretHash === null ? 'none' : 'client_secret_basic',
    application_type: secretHash === null && redirectUris.some(isNativeUri) ? 'native' : 'web',
    grant_types: grants,
    redirect_uris: redirectUris,
    response_types: grants.includes('authorization_code') ? ['code'] : [],
    scope: scopes.join(' '),
  }
}
