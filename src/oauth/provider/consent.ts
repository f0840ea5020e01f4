import type { Configuration, Grant } from 'oidc-provider'
import type { Database, Queryable } from '../../storage/database.ts'
import { grantableScopes } from '../tokens/scopes.ts'
import type { Role } from '../users/accounts.ts'

type LoadGrant = NonNullable<Configuration['loadExistingGrant']>

/** Adds the scopes that a user of that role can grant, and marks the others as rejected. */
export function fillGrant(grant: Grant, resources: readonly string[], scopes: readonly string[], role: Role): void {
  const given = scopes.filter((scope) => grantableScopes(role, scope))
  const refused = scopes.filter((scope) => !grantableScopes(role, scope))
  if (given.length > 0) grant.addOIDCScope([...given])
  if (refused.length > 0) grant.rejectOIDCScope([...refused])
  for (const resource of resources) {
    if (given.length > 0) grant.addResourceScope(resource, [...given])
    if (refused.length > 0) grant.rejectResourceScope(resource, [...refused])
  }
}

/**
 * Finds the grant of an authorization request: the one of this consent or login. Otherwise, if the client is first-party or
 * the user consented to these scopes before, creates one without asking again. Never asks for scopes the role cannot grant:
 * the request is denied.
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
    const given = scopes.filter((scope) => grantableScopes(role, scope))
    const asked = { userId: Number(account.accountId), clientId: client.clientId, scopes: given }
    const isVain = given.length === 0
    if (!(isVain || client.is_first_party || (await isRemembered(db, asked)))) return grant
    const anew = grant ?? new provider.Grant({ accountId: account.accountId, clientId: client.clientId })
    fillGrant(anew, resources, scopes, role)
    await anew.save()
    return anew
  }
}

function covers(grant: Grant, resources: readonly string[], scopes: readonly string[]): boolean {
  const met = [
    grant.getOIDCScopeEncountered(),
    ...resources.map((resource) => grant.getResourceScopeEncountered(resource)),
  ]
  const known = met.map((text) => new Set(text.split(' ')))
  return scopes.every((scope) => known.every((names) => names.has(scope)))
}

interface Consent {
  userId: number
  clientId: string
  scopes: readonly string[]
}

async function isRemembered(db: Database, { userId, clientId, scopes }: Consent): Promise<boolean> {
  const consents = db.read.selectFrom('consents').select('scopes').where('userId', '=', userId)
  const kept = await consents.where('clientId', '=', clientId).executeTakeFirst()
  const names = new Set(kept?.scopes.split(' '))
  return scopes.every((scope) => names.has(scope))
}

/** Stores that a user allowed a client these scopes, in addition to those allowed before. */
export async function rememberConsent(tx: Queryable, { userId, clientId, scopes }: Consent, nowMs: number) {
  const updatedAt = new Date(nowMs).toISOString()
  const consents = tx.selectFrom('consents').select('scopes').where('userId', '=', userId)
  const kept = await consents.where('clientId', '=', clientId).executeTakeFirst()
  const all = [...new Set([...(kept?.scopes.split(' ') ?? []), ...scopes])].join(' ')
  await tx
    .insertInto('consents')
    .values({ userId, clientId, scopes: all, updatedAt })
    .onConflict((conflict) => conflict.columns(['userId', 'clientId']).doUpdateSet({ scopes: all, updatedAt }))
    .execute()
}
