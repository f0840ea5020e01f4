import type { Caller } from '../../http/policies/authenticate.ts'
import { lacksScope } from '../../http/policies/authorize.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import { isActiveAdministrator, keepAdministrator, lockUser } from './accounts.ts'

interface UserChange {
  id: number
  /** The user as it will be; null for a removal. */
  values: Readonly<Record<string, unknown>> | null
  caller: Caller
}

/**
 * The rules of users who may log in, kept in the transaction that changes a user: only the scope `admin` removes an
 * administrator or gives one another e-mail address, the last one who can log in stays, and a new address voids the
 * invitation that was sent to the old one.
 */
export function accountGuard({ engine }: Pick<Database, 'engine'>) {
  const change = async <T>(tx: Queryable, { id, values, caller }: UserChange, run: () => Promise<T | undefined>) => {
    const user = await lockUser(tx, engine, id)
    const isRemoval = values === null
    if (!user || (!isRemoval && values.email === user.email)) return run()
    if (!caller.scopes.has('admin') && (await isOfAdministrator(tx, id))) throw refusal(isRemoval)
    const counts = isRemoval && (await isActiveAdministrator(tx, id))
    const changed = await run()
    if (changed === undefined) return undefined
    if (counts) await keepAdministrator(tx)
    if (!isRemoval) await tx.deleteFrom('invitations').where('userId', '=', id).execute()
    return changed
  }
  return { removalProblems: ['LAST_ADMINISTRATOR'] as const, change }
}

/** Whether or not there is a password yet: an invited administrator is one, too. */
async function isOfAdministrator(tx: Queryable, userId: number): Promise<boolean> {
  const account = await tx.selectFrom('accounts').select('role').where('userId', '=', userId).executeTakeFirst()
  return account?.role === 'admin'
}

const refusal = (isRemoval: boolean) =>
  lacksScope('admin', isRemoval ? 'Deleting an administrator' : 'Changing the e-mail address of an administrator')
