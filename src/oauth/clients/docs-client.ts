import { theService } from '../../audit/chain.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import type { Scopes } from '../tokens/scopes.ts'
import type { RegisteredClient } from './client-rows.ts'
import { createClient, findClient } from './clients.ts'
import { isRedirectUri } from './redirect-uris.ts'
import { revokeClient, updateClient } from './update.ts'

/** The id of the client that the API reference uses to log users in. */
export const docsClientId = 'docs'

export interface DocsClientOptions {
  db: Database
  sealer: Sealer
  /**
   * All scopes of the service. The client may request any of them; the user's role limits which of them are granted.
   */
  scopes: Scopes
  baseUrl: string
  /** Whether users can log in from the API reference. */
  isEnabled: boolean
}

/**
 * Registers or updates the API reference's client, which is public and may redirect only to `/docs` on this origin.
 * Revokes the client if users cannot log in from the reference, as in production. Returns the client's id, or null if
 * there is no client. Call on each start.
 */
export async function syncDocsClient(options: DocsClientOptions): Promise<string | null> {
  const { db, sealer, baseUrl } = options
  // If clients may not register this host, for example because it contains an underscore, the reference offers no login.
  const isEnabled = options.isEnabled && isRedirectUri(redirectUri(baseUrl))
  const found = await findClient(db, docsClientId)
  const change = { db, sealer, actor: theService }
  if (!isEnabled) {
    if (found) await revokeClient(change, docsClientId)
    return null
  }
  const settings = settingsOf(options)
  if (found === undefined) return register(options)
  if (!isUpToDate(found, settings)) await updateClient(change, options.scopes, docsClientId, settings)
  return docsClientId
}

const redirectUri = (baseUrl: string) => `${baseUrl}/docs`

const settingsOf = ({ scopes, baseUrl }: DocsClientOptions) => ({
  name: 'API reference',
  scopes: Object.keys(scopes),
  grants: ['authorization_code', 'refresh_token'],
  redirectUris: [redirectUri(baseUrl)],
  firstParty: true,
})

type DocsSettings = ReturnType<typeof settingsOf>

const isUpToDate = (client: RegisteredClient, settings: DocsSettings): boolean =>
  Object.entries(settings).every(([name, value]) => String(client[name as keyof DocsSettings]) === String(value))

/** Registers the client. Returns null if an administrator revoked it, because a revoked client's id cannot be reused. */
async function register(options: DocsClientOptions): Promise<string | null> {
  const { db, sealer, scopes } = options
  try {
    await createClient(db, sealer, scopes, { ...settingsOf(options), id: docsClientId, secret: null })
    return docsClientId
  } catch (error) {
    if (!(error instanceof Problem && error.code === 'DUPLICATE_RESOURCE')) throw error
    // The id is taken: another node has just registered the client, or the client was revoked.
    return (await findClient(db, docsClientId)) ? docsClientId : null
  }
}
