import { errors, type default as Provider, type TokenEndpointGrantContext } from 'oidc-provider'
import { Problem } from '../../http/problems/problem.ts'
import type { Database } from '../../storage/database.ts'
import { type Account, accountFinder } from '../users/accounts.ts'
import type { Credentials, Login } from '../users/login.ts'
import { requestOf } from './audit-tokens.ts'
import { type Api, namesApi, requestedScope } from './client-credentials.ts'
import { fillGrant } from './consent.ts'

export interface PasswordGrantOptions {
  db: Database
  login: Login
  /** Returns the client address of a request. */
  address: (message: TokenEndpointGrantContext['req']) => string
}

type Context = TokenEndpointGrantContext<{ username?: string; password?: string; scope?: string; resource?: unknown }>

/**
 * Adds the password grant (RFC 6749 §4.3), which RFC 9700 §2.4 deprecates. The grant is available only to clients
 * marked as trusted, and has the same limits as the login page.
 */
export function allowPassword(provider: Provider, api: Api, { db, login, address }: PasswordGrantOptions): void {
  const handle = async (ctx: Context): Promise<void> => {
    const { client, params } = ctx.oidc
    if (!client.is_trusted) throw new errors.UnauthorizedClient('the client may not use the password grant')
    const { username, password } = params
    if (!username || !password) throw new errors.InvalidRequest('username and password are required')
    if (!namesApi(params.resource, api)) throw new errors.InvalidTarget()
    const scopes = requestedScope(params.scope, client.scope ?? '').split(' ')
    const credentials = { email: username, password, address: address(ctx.req), by: requestOf(ctx) }
    const account = await loggedIn(ctx, login, credentials)
    await issue(provider, api, db, ctx, account, scopes)
  }
  provider.registerGrantType('password', handle, ['username', 'password', 'scope', 'resource'], ['resource'])
}

async function loggedIn(ctx: Context, login: Login, credentials: Credentials): Promise<Account> {
  const result = await login(credentials).catch((error) => {
    throw error instanceof Problem ? refusal(ctx, error.status, 'temporarily_unavailable', 2) : error
  })
  if ('account' in result) return result.account
  if (result.waitSeconds > 0) throw refusal(ctx, 429, 'slow_down', result.waitSeconds)
  throw Object.assign(new errors.InvalidGrant('wrong credentials'), {
    error_description: 'username or password is wrong',
  })
}

function refusal(ctx: Context, status: number, error: string, waitSeconds: number): errors.OIDCProviderError {
  ctx.set('Retry-After', String(waitSeconds))
  const description = `try again in ${waitSeconds} seconds`
  return Object.assign(new errors.OIDCProviderError(status, error), { error_description: description, expose: true })
}

async function issue(provider: Provider, api: Api, db: Database, ctx: Context, account: Account, scopes: string[]) {
  const { client } = ctx.oidc
  const accountId = String(account.userId)
  const grant = new provider.Grant({ accountId, clientId: client.clientId })
  fillGrant(grant, [api.audience], scopes, account.role)
  const scope = grant.getResourceScopeFiltered(api.audience, scopes)
  if (scope === '') throw new errors.InvalidScope('the user can grant none of the requested scopes', scopes.join(' '))
  const source = { accountId, client, grantId: await grant.save(), gty: 'password' }
  const token = new provider.AccessToken({ ...source, scope })
  token.resourceServer = new provider.ResourceServer(api.audience, api)
  const known = await accountFinder(db)(ctx, accountId)
  if (!known) throw new errors.InvalidGrant('the account no longer exists')
  for (const [name, entity] of Object.entries({ Grant: grant, Account: known, AccessToken: token })) {
    ctx.oidc.entity(name as 'Grant', entity as typeof grant)
  }
  const authTime = Math.floor(Date.now() / 1_000)
  ctx.body = {
    access_token: await token.save(),
    token_type: 'Bearer',
    expires_in: token.expiration,
    scope,
    ...(client.grantTypeAllowed('refresh_token') && {
      refresh_token: await refreshToken(provider, { ...source, authTime, scope, resource: api.audience }),
    }),
    ...(scope.split(' ').includes('openid') && { id_token: await idToken(provider, ctx, scope, authTime) }),
  }
}

type Source = ConstructorParameters<Provider['RefreshToken']>[0]

function refreshToken(provider: Provider, source: Source): Promise<string> {
  return new provider.RefreshToken({ ...source, rotations: 0 }).save()
}

async function idToken(provider: Provider, ctx: Context, scope: string, authTime: number): Promise<string> {
  const claims = await ctx.oidc.account?.claims('id_token', scope, {}, [])
  const token = new provider.IdToken({ ...claims, auth_time: authTime }, { ctx })
  Object.assign(token, { scope })
  return token.issue({ use: 'idtoken' })
}
