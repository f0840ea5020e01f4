import { theService } from '../../audit/chain.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import type { Scopes } from '../tokens/scopes.ts'
import type { RegisteredClient } from './client-rows.ts'
import { createClient, findClient } from './clients.ts'
import { isRedirectUri } from './redirect-uris.ts'
import { updateClient } from './update.ts'

/** A page of the service through which users log in, with its own OAuth client. */
export interface BuiltInClient {
  id: string
  name: string
  /** The path of the redirect URI. */
  redirectPath: string
  /** The path to return to after a logout. */
  logoutPath: string
}

/** The client of the API reference. */
export const docsClient: BuiltInClient = {
  id: 'docs',
  name: 'API reference',
  redirectPath: '/docs',
  logoutPath: '/docs',
}

/** The client of the console. */
export const consoleClient: BuiltInClient = {
  id: 'console',
  name: 'Console',
  redirectPath: '/console/signed-in',
  logoutPath: '/console/',
}

/** Returns whether the id belongs to a page of the service. */
export const isBuiltInClient = (id: string): boolean => [docsClient.id, consoleClient.id].includes(id)

export interface BuiltInClientOptions {
  db: Database
  sealer: Sealer
  /**
   * All scopes of the service. The client may request any of them; the user's role limits which of them are granted.
   */
  scopes: Scopes
  baseUrl: string
  /** Whether users can log in from the page. */
  isEnabled: boolean
  /** Called if `isEnabled` is true but the id belongs to another client. */
  onTaken: (id: string) => void
}

/**
 * Registers or updates a page's client on each start: a public client that may redirect only to that page on this
 * origin. If users cannot log in from the page, its client loses all scopes but `openid`; it is not revoked, because a
 * revoked client's id cannot be reused. Never changes a client that someone else registered under the id. Returns the
 * client's id, or null if users cannot log in from the page.
 */
export async function syncBuiltInClient(client: BuiltInClient, options: BuiltInClientOptions): Promise<string | null> {
  const { db, sealer, baseUrl } = options
  const { id } = client
  // If clients may not register this host, for example because it contains an underscore, the page offers no login.
  const isEnabled = options.isEnabled && isRedirectUri(baseUrl + client.redirectPath)
  const found = await findClient(db, id)
  const change = { db, sealer, actor: theService }
  if (found && !isOwn(found, client)) {
    if (options.isEnabled) options.onTaken(id)
    return null
  }
  if (!isEnabled) {
    const scopes = ['openid']
    if (found && String(found.scopes) !== String(scopes)) await updateClient(change, options.scopes, id, { scopes })
    return null
  }
  const settings = settingsOf(client, options)
  if (found === undefined) return register(client, settings, options)
  if (!isUpToDate(found, settings)) await updateClient(change, options.scopes, id, settings)
  return id
}

const settingsOf = (
  { name, redirectPath, logoutPath }: BuiltInClient,
  { scopes, baseUrl }: Pick<BuiltInClientOptions, 'scopes' | 'baseUrl'>,
) => ({
  name,
  scopes: Object.keys(scopes),
  grants: ['authorization_code', 'refresh_token'],
  redirectUris: [baseUrl + redirectPath],
  postLogoutRedirectUris: [baseUrl + logoutPath],
  firstParty: true,
})

/** Returns whether the client is public and redirects only to the page, at any origin. */
const isOwn = ({ secretHash, redirectUris }: RegisteredClient, { redirectPath }: BuiltInClient): boolean =>
  secretHash === null && redirectUris.length > 0 && redirectUris.every((uri) => uri.endsWith(redirectPath))

type Settings = ReturnType<typeof settingsOf>

const isUpToDate = (client: RegisteredClient, settings: Settings): boolean =>
  Object.entries(settings).every(([name, value]) => String(client[name as keyof Settings]) === String(value))

/**
 * Registers the client and returns its id; null if an administrator revoked it, because a revoked client's id cannot be
 * reused.
 */
async function register(client: BuiltInClient, settings: Settings, options: BuiltInClientOptions) {
  const { db, sealer, scopes } = options
  const { id } = client
  try {
    await createClient(db, sealer, scopes, { ...settings, id, secret: null })
    return id
  } catch (error) {
    if (!(error instanceof Problem && error.code === 'DUPLICATE_RESOURCE')) throw error
    // The id is taken: another node has just registered the client, or the client was revoked.
    const found = await findClient(db, id)
    return found && isOwn(found, client) ? id : null
  }
}
