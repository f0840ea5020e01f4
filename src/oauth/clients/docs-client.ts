import { theService } from '../../audit/chain.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import type { Scopes } from '../tokens/scopes.ts'
import type { RegisteredClient } from './client-rows.ts'
import { createClient, findClient } from './clients.ts'
import { isRedirectUri } from './redirect-uris.ts'
import { revokeClient, updateClient } from './update.ts'

/** The client used to log in from the API reference. */
export const docsClientId = 'docs'

export interface DocsClientOptions {
  db: Database
  sealer: Sealer
  /** All scopes of the service: the client may have all of them, limited by the user's role. */
  scopes: Scopes
  baseUrl: string
  /** Whether users can log in from the reference at all. */
  isWanted: boolean
}

/**
 * Keeps the API reference's client up to date: public, with redirects only to `/docs` of this origin. If it is not wanted,
 * as in production, it is revoked. Returns its id, or null if there is none. Call on each start.
 */
export async function keepDocsClient(options: DocsClientOptions): Promise<string | null> {
  const { db, sealer, baseUrl } = options
  // If clients may not register this host, such as one with an underscore, the reference has no login.
  const isWanted = options.isWanted && isRedirectUri(redirectUri(baseUrl))
  const found = await findClient(db, docsClientId)
  const change = { db, sealer, actor: theService }
  if (!isWanted) {
    if (found) await revokeClient(change, docsClientId)
    return null
  }
  const wanted = wantedOf(options)
  if (found === undefined) return register(options)
  if (!isAsWanted(found, wanted)) await updateClient(change, options.scopes, docsClientId, wanted)
  return docsClientId
}

const redirectUri = (baseUrl: string) => `${baseUrl}/docs`

const wantedOf = ({ scopes, baseUrl }: DocsClientOptions) => ({
  name: 'API reference',
  scopes: Object.keys(scopes),
  grants: ['authorization_code', 'refresh_token'],
  redirectUris: [redirectUri(baseUrl)],
  firstParty: true,
})

type Wanted = ReturnType<typeof wantedOf>

const isAsWanted = (client: RegisteredClient, wanted: Wanted): boolean =>
  Object.entries(wanted).every(([name, value]) => String(client[name as keyof Wanted]) === String(value))

/** Null if an administrator revoked it: an id is never registered twice. */
async function register(options: DocsClientOptions): Promise<string | null> {
  const { db, sealer, scopes } = options
  try {
    await createClient(db, sealer, scopes, { ...wantedOf(options), id: docsClientId, secret: null })
    return docsClientId
  } catch (error) {
    if (!(error instanceof Problem && error.code === 'DUPLICATE_RESOURCE')) throw error
    // Another node registered it meanwhile, or it is revoked.
    return (await findClient(db, docsClientId)) ? docsClientId : null
  }
}
