import type { Adapter, AdapterPayload, ResponseType } from 'oidc-provider'
import type { Database } from '../../storage/database.ts'
import type { RegisteredClient } from '../clients/client-rows.ts'
import { clientFinder } from '../clients/clients.ts'
import { isNativeUri } from '../clients/redirect-uris.ts'

const maxClients = 1_000

/** Creates oidc-provider's read-only adapter for clients. */
export function clientRecords(db: Database): Adapter {
  const none = async () => undefined
  const readOnly = async () => {
    throw new Error('Clients are registered and revoked by the service, not through the provider')
  }
  const lookUp = clientFinder(db)
  const { changes } = db
  const known = new Map<string, { asOf: number; found: AdapterPayload }>()
  const find = async (id: string) => {
    const cached = known.get(id)
    if (changes && cached !== undefined && changes.lastOf('clients') <= cached.asOf) return cached.found
    const asOf = changes?.last()
    const client = await lookUp(id)
    const found = client && metadata(client)
    if (known.size >= maxClients) known.clear()
    if (found && asOf !== undefined) known.set(id, { asOf, found })
    return found
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

/** Client metadata fields that RFC 7591 does not define. */
export const ownMetadata = ['is_first_party', 'is_trusted', 'introspects_others']

/**
 * Returns client metadata (RFC 7591 §2). The provider accepts the secret by HTTP Basic or in the form, regardless of
 * the method set here.
 */
function metadata(client: RegisteredClient): AdapterPayload {
  const { id, name, secretHash, scopes, grants, redirectUris, postLogoutRedirectUris, firstParty, trusted } = client
  return {
    client_id: id,
    client_name: name,
    client_secret: secretHash ?? undefined,
    token_endpoint_auth_method: secretHash === null ? 'none' : 'client_secret_basic',
    application_type: secretHash === null && redirectUris.some(isNativeUri) ? 'native' : 'web',
    grant_types: grants,
    redirect_uris: redirectUris,
    post_logout_redirect_uris: postLogoutRedirectUris,
    response_types: responseTypesOf(grants),
    scope: scopes.join(' '),
    is_first_party: firstParty,
    is_trusted: trusted,
    introspects_others: client.introspectsOthers,
  }
}

/** Returns the response types that a client's grants imply (OpenID Connect Dynamic Registration §2). */
export function responseTypesOf(grants: readonly string[]): ResponseType[] {
  const types: [grant: string, type: ResponseType][] = [
    ['authorization_code', 'code'],
    ['implicit', 'id_token'],
  ]
  return types.filter(([grant]) => grants.includes(grant)).map(([, type]) => type)
}
