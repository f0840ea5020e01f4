import { passwordChanged, type RecordAudit, theService } from '../db/audit.ts'
import type { Database } from '../db/database.ts'
import { addUser, hasAccounts, openAccount, setPasswordHash } from './accounts.ts'
import type { Passwords } from './passwords.ts'

const email = 'admin@localhost'
const passwordBytes = 15

/**
 * Makes an administrator with a random password where nobody can log in yet, and returns how to; null where somebody can.
 * However many processes start together, one of them makes it (T-AUTH-07): the e-mail address is unique.
 */
export async function createFirstAdmin(
  db: Database,
  passwords: Passwords,
  now: () => number,
  random: (size: number) => Uint8Array,
  record: RecordAudit,
): Promise<{ email: string; password: string } | null> {
  if (await hasAccounts(db)) return null
  const password = Buffer.from(random(passwordBytes)).toString('base64url')
  const hash = await passwords.hash(password)
  const at = now()
  try {
    await db.write(async (tx) => {
      const userId = await addUser(tx, 'Administrator', email, at)
      await openAccount(tx, userId, 'admin', at)
      await setPasswordHash(tx, userId, hash, at)
      await record(tx, passwordChanged(String(userId), theService))
    })
  } catch (error) {
    if (db.engine.isDuplicate(error)) return null
    throw error
  }
  return { email, password }
}
