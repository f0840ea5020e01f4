import { theService } from '../../audit/chain.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import type { Scopes } from '../tokens/scopes.ts'
import type { RegisteredClient } from './client-rows.ts'
import { createClient, findClient } from './clients.ts'
import { isRedirectUri } from './redirect-uris.ts'
import { revokeClient, updateClient } from './update.ts'

/** The client as which people log in from the API reference. */
export const docsClientId = 'docs'

export interface DocsClientOptions {
  db: Database
  sealer: Sealer
  /** Every scope of the service: the client may have all of them, a person gives it what its role can. */
  scopes: Scopes
  baseUrl: string
  /** Whether people log in from the reference at all. */
  isWanted: boolean
}

/**
 * Keeps the client of the API reference as it should be: public, and led back to `/docs` of this origin alone; one that
 * is not wanted, as in production, is revoked. Returns its id, or null where there is none. Meant for each start.
 */
export async function keepDocsClient(options: DocsClientOptions): Promise<string | null> {
  const { db, sealer, baseUrl } = options
  // A host that no client may register, such as one with an underscore, has a reference without a login.
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

/** Null where an administrator has revoked it: an id is never registered twice. */
async function register(options: DocsClientOptions): Promise<string | null> {
  const { db, sealer, scopes } = options
  try {
    await createClient(db, sealer, scopes, { ...wantedOf(options), id: docsClientId, secret: null })
    return docsClientId
  } catch (error) {
    if (!(error instanceof Problem && error.code === 'DUPLICATE_RESOURCE')) throw error
    // Another node has made it meanwhile, or it is revoked.
    return (await findClient(db, docsClientId)) ? docsClientId : null
  }
}
