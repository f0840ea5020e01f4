import { extendedUserReader } from './catalog/user-rows.ts'
import type { Definition } from './definition/service.ts'
import { type Caller, isUserId } from './http/policies/authenticate.ts'
import { isGrantable } from './oauth/tokens/scopes.ts'
import type { EventReceiver } from './queue/events.ts'
import type { ReportAccess } from './reports/report-types.ts'
import { callerFacts } from './resources/access/caller-facts.ts'
import { accessOf } from './resources/access/enforce.ts'
import { eventAccess } from './resources/access/event-access.ts'
import type { CallerFacts } from './resources/access/rules.ts'
import type { Database } from './storage/database.ts'
import { passesNone } from './storage/rows/row-test.ts'
import { effectiveScopes } from './webhooks/dispatch/subscribers.ts'

/** The options of `rowAccess`. Only tests set `givenClaims`. */
export interface RowAccessOptions {
  db: Database
  now: () => number
  /** Returns claims that replace the result of the claims function; undefined to keep that result. */
  givenClaims?: ((caller: Caller) => object | undefined) | undefined
}

/** Returns a definition's access rules for requests, events and reports, which all share one cache of caller facts. */
export function rowAccess(definition: Definition, { db, now, givenClaims }: RowAccessOptions) {
  const { collections, events, users, zone } = definition
  const stored = callerFacts({ db, now, readUser: users && extendedUserReader(db, users) })
  const factsOf = givenClaims
    ? async (caller: Caller) => ({ ...(await stored(caller)), claims: givenClaims(caller) })
    : stored
  const callerNow = storedCallers(db, factsOf)
  const declarations = collections.map(({ declaration }) => declaration)
  const rules = new Map(declarations.map((one) => [one.name, accessOf(one, { factsOf, now, zone })] as const))
  const readable = async (name: string, caller: Caller) => (await rules.get(name)?.(caller))?.read ?? passesNone
  return {
    factsOf,
    eventAccess: eventAccess({ declarations, types: Object.keys(events), factsOf, callerNow, now, zone }),
    reportAccess: { readable, callerNow } satisfies ReportAccess,
  }
}

/**
 * Returns a function that converts a stored event receiver to a caller. The caller has the scopes that the client still
 * has and the user's role still allows, or none if the user was deleted.
 */
export function storedCallers(db: Database, factsOf: (caller: Caller) => Promise<CallerFacts>) {
  return async (stored: EventReceiver): Promise<Caller> => {
    const { ownerClient: clientId, ownerSubject: subject } = stored
    const scopes = await effectiveScopes(db.read, stored)
    if (subject === clientId || !isUserId(subject)) return { clientId, subject, scopes: new Set(scopes) }
    const { user } = await factsOf({ clientId, subject, scopes: new Set() })
    const role = user?.roles.includes('admin') ? 'admin' : 'user'
    const granted = user ? scopes.filter((scope) => isGrantable(role, scope)) : []
    return { clientId, subject, scopes: new Set(granted) }
  }
}
