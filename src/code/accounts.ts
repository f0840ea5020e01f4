import { auditRecorder } from '../audit/chain.ts'
import type { ExtendedUsers } from '../catalog/extended-users.ts'
import { users as builtInUsers } from '../catalog/users.ts'
import type { Caller } from '../http/policies/authenticate.ts'
import type { ProblemCode } from '../http/problems/problem.ts'
import { type RevocationEpoch, revokingWrites } from '../oauth/tokens/revocation-epoch.ts'
import { accountGuard, extendedAccountGuard } from '../oauth/users/account-guard.ts'
import type { Declaration } from '../resources/declaration.ts'
import type { Guard } from '../resources/writes/guard.ts'
import type { Database } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'

interface AccountParts {
  db: Database
  sealer: Sealer
  now: () => number
  revocations?: RevocationEpoch | undefined
}

/** The rules for writes to users, whose rows are accounts. */
export interface AccountRules {
  /**
   * The database for writes by requests and by code. When code deletes a user, committing the transaction makes this
   * process verify cached tokens again.
   */
  db: Database
  /** Returns the guard for requests to the users or to a view of the users; undefined for other collections. */
  guardOf: (declaration: Declaration) => Guard | undefined
  /**
   * Returns the guards for code that runs with the rights of the service or of the caller; undefined for other
   * collections.
   */
  codeGuardsOf: (declaration: Declaration) => Record<'ofService' | 'ofCaller', Guard | undefined>
}

const none = { ofService: undefined, ofCaller: undefined }

/** Returns the rules for writes to the users of a definition. */
export function accountRules(extended: ExtendedUsers | undefined, parts: AccountParts): AccountRules {
  const { sealer, now, revocations = { count: 0 } } = parts
  const { db, revoke } = revokingWrites(parts.db, revocations)
  const users = (extended?.collection ?? builtInUsers).declaration
  const guard: Guard = extended ? extendedAccountGuard(db, auditRecorder(sealer, now)) : accountGuard(db)
  const codeGuard = (callerOf: (caller: Caller) => Caller): Guard => ({
    ...guard,
    change: async (tx, change, run) => {
      const changed = await guard.change(tx, { ...change, caller: callerOf(change.caller) }, run)
      if (changed !== undefined && change.values === null) revoke(tx)
      return changed
    },
  })
  const codeGuards = { ofService: codeGuard(withServiceScopes), ofCaller: codeGuard((caller) => caller) }
  const isUsers = (declaration: Declaration) => (declaration.view?.collection ?? declaration) === users
  return {
    db,
    guardOf: (declaration) => (isUsers(declaration) ? guard : undefined),
    codeGuardsOf: (declaration) => (isUsers(declaration) ? codeGuards : none),
  }
}

/** Adds the scopes on users that code has when it runs with the rights of the service. `admin` is not one of them. */
export const withServiceScopes = (caller: Caller): Caller => ({
  ...caller,
  scopes: new Set([...caller.scopes, 'users:write', 'users:read:full']),
})

/** The caller of jobs and schedules: the service itself, which may manage users. */
export const serviceCaller: Caller = withServiceScopes({
  ...{ clientId: 'service', subject: 'service' },
  scopes: new Set(['admin']),
})

/** Returns the user fields that a hook cannot change, because their rules are checked before the hook runs. */
export const accountFields = ({ writers }: Declaration, moment: 'creating' | 'changing'): readonly string[] => [
  ...(moment === 'changing' ? ['email'] : []),
  ...(writers?.recorded ?? []),
]

/**
 * Error codes of the account rules. If the author's code breaks such a rule, the client receives this error instead of
 * a 500.
 */
export const accountProblems: readonly ProblemCode[] = ['ACCESS_DENIED', 'PERMISSION_DENIED', 'LAST_ADMINISTRATOR']
