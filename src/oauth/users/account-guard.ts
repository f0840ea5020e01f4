import { type AuditActor, type RecordAudit, userUpdated } from '../../audit/chain.ts'
import type { Caller } from '../../http/policies/authenticate.ts'
import { lacksScope } from '../../http/policies/authorize.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import { assertAdministratorLeft, isActiveAdministrator, lockUser } from './accounts.ts'

interface UserChange {
  id: RowId
  /** The user after the change; null if the user is deleted. */
  values: Readonly<Record<string, unknown>> | null
  caller: Caller
}

/**
 * Enforces the account rules in the transaction that changes a user. Only callers with the `admin` scope may delete an
 * administrator or change an administrator's e-mail address. The last administrator who can log in cannot be deleted. A
 * new address invalidates the invitation sent to the old address.
 */
export function accountGuard({ engine }: Pick<Database, 'engine'>) {
  const change = async <T>(tx: Queryable, { id, values, caller }: UserChange, run: () => Promise<T | undefined>) => {
    const userId = Number(id)
    const user = await lockUser(tx, engine, userId)
    const isRemoval = values === null
    if (!user || (!isRemoval && values.email === user.email)) return run()
    if (!caller.scopes.has('admin') && (await isAdministrator(tx, userId))) throw refusal(isRemoval)
    const counts = isRemoval && (await isActiveAdministrator(tx, userId))
    const changed = await run()
    if (changed === undefined) return undefined
    if (counts) await assertAdministratorLeft(tx)
    if (!isRemoval) await tx.deleteFrom('invitations').where('userId', '=', userId).execute()
    return changed
  }
  return { removalProblems: ['LAST_ADMINISTRATOR'] as const, change }
}

interface RecordedChange {
  id: RowId
  fields: readonly string[]
  values: Readonly<Record<string, unknown>>
  caller: Caller
  actor: AuditActor
}

/**
 * Enforces the rules of `accountGuard` for users with additional fields. In addition, only callers with
 * `users:read:full` may delete users, and changes that callers with the `admin` scope make to the additional fields are
 * audited.
 */
export function extendedAccountGuard(db: Pick<Database, 'engine'>, record: RecordAudit) {
  const { removalProblems, change } = accountGuard(db)
  return {
    removalProblems,
    change: async <T>(tx: Queryable, userChange: UserChange, run: () => Promise<T | undefined>) => {
      const isRemoval = userChange.values === null
      if (isRemoval && !userChange.caller.scopes.has(fullScope)) throw lacksScope(fullScope, 'Deleting a user')
      return change(tx, userChange, run)
    },
    record: async (tx: Queryable, { id, fields, values, caller, actor }: RecordedChange) => {
      if (!caller.scopes.has('admin')) return
      await record(tx, { ...actor, ...userUpdated(Number(id), fields, values) })
    },
  }
}

const fullScope = 'users:read:full'

/** Returns whether the user is an administrator, including invited administrators who have no password yet. */
async function isAdministrator(tx: Queryable, userId: number): Promise<boolean> {
  const account = await tx.selectFrom('accounts').select('role').where('userId', '=', userId).executeTakeFirst()
  return account?.role === 'admin'
}

const refusal = (isRemoval: boolean) =>
  lacksScope('admin', isRemoval ? 'Deleting an administrator' : 'Changing the e-mail address of an administrator')
