import type { Configuration, Grant } from 'oidc-provider'
import type { Database, Queryable } from '../../storage/database.ts'
import { isGrantable } from '../tokens/scopes.ts'
import type { Role } from '../users/accounts.ts'

type LoadGrant = NonNullable<Configuration['loadExistingGrant']>

/** Adds to the grant all scopes that a user with this role can grant, and marks the other scopes as rejected. */
export function fillGrant(grant: Grant, resources: readonly string[], scopes: readonly string[], role: Role): void {
  const grantable = scopes.filter((scope) => isGrantable(role, scope))
  const refused = scopes.filter((scope) => !isGrantable(role, scope))
  if (grantable.length > 0) grant.addOIDCScope([...grantable])
  if (refused.length > 0) grant.rejectOIDCScope([...refused])
  for (const resource of resources) {
    if (grantable.length > 0) grant.addResourceScope(resource, [...grantable])
    if (refused.length > 0) grant.rejectResourceScope(resource, [...refused])
  }
}

/**
 * Returns a function that finds the grant for an authorization request: the one from the consent just given, or one
 * from earlier in this login. If the grant is missing or does not cover the requested scopes, creates or extends it
 * without a prompt if the client is first-party or the user has already consented to these scopes. Never prompts for
 * scopes that the user's role cannot grant, and denies a request for only such scopes.
 */
export function grantLoader(db: Database): LoadGrant {
  return async (ctx) => {
    const { client, session, result, account, provider, prompts, resourceServers } = ctx.oidc
    if (!client || !account) return undefined
    const id = result?.consent?.grantId ?? session?.grantIdFor(client.clientId)
    const grant = id === undefined ? undefined : await provider.Grant.find(id)
    const scopes = [...ctx.oidc.requestParamOIDCScopes]
    const resources = Object.keys(resourceServers ?? {})
    if (prompts.has('consent') || (grant && covers(grant, resources, scopes))) return grant
    const role = account.role as Role
    const grantable = scopes.filter((scope) => isGrantable(role, scope))
    const consent = { userId: Number(account.accountId), clientId: client.clientId, scopes: grantable }
    const isPointless = grantable.length === 0
    if (!(isPointless || client.is_first_party || (await isRemembered(db, consent)))) return grant
    const created = grant ?? new provider.Grant({ accountId: account.accountId, clientId: client.clientId })
    fillGrant(created, resources, scopes, role)
    await created.save()
    return created
  }
}

function covers(grant: Grant, resources: readonly string[], scopes: readonly string[]): boolean {
  const encountered = [
    grant.getOIDCScopeEncountered(),
    ...resources.map((resource) => grant.getResourceScopeEncountered(resource)),
  ]
  const known = encountered.map((text) => new Set(text.split(' ')))
  return scopes.every((scope) => known.every((names) => names.has(scope)))
}

interface Consent {
  userId: number
  clientId: string
  scopes: readonly string[]
}

async function isRemembered(db: Database, { userId, clientId, scopes }: Consent): Promise<boolean> {
  const consents = db.read.selectFrom('consents').select('scopes').where('userId', '=', userId)
  const stored = await consents.where('clientId', '=', clientId).executeTakeFirst()
  const names = new Set(stored?.scopes.split(' '))
  return scopes.every((scope) => names.has(scope))
}

/** Adds these scopes to the user's stored consent for a client. */
export async function rememberConsent(tx: Queryable, { userId, clientId, scopes }: Consent, nowMs: number) {
  const updatedAt = new Date(nowMs).toISOString()
  const consents = tx.selectFrom('consents').select('scopes').where('userId', '=', userId)
  const stored = await consents.where('clientId', '=', clientId).executeTakeFirst()
  const all = [...new Set([...(stored?.scopes.split(' ') ?? []), ...scopes])].join(' ')
  await tx
    .insertInto('consents')
    .values({ userId, clientId, scopes: all, updatedAt })
    .onConflict((conflict) => conflict.columns(['userId', 'clientId']).doUpdateSet({ scopes: all, updatedAt }))
    .execute()
}
