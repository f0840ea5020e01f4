import { type Caller, isUserId } from './http/policies/authenticate.ts'
import { isGrantable } from './oauth/tokens/scopes.ts'
import type { EventReceiver } from './queue/events.ts'
import type { CallerFacts } from './resources/access/rules.ts'
import type { Database } from './storage/database.ts'
import { effectiveScopes } from './webhooks/dispatch/subscribers.ts'

/**
 * Returns the function that turns somebody stored with the scopes of a past token into the caller that this would be now:
 * with the scopes that the client still has and the user's role can still grant; without any if the user was deleted.
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
