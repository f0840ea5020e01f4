import { ageText, count } from '../backup/describe.ts'
import { cookieKeysContext, cookieKeysName, storedSigningKeys } from '../oauth/keys/stored-keys.ts'
import { defaultCost, type PasswordCost } from '../oauth/users/passwords.ts'
import { Unsealable } from '../storage/encryption.ts'
import { iso } from '../storage/ids.ts'
import { type Check, type DatabaseContext, fail, pass, warn } from './check.ts'

const dayMs = 86_400_000
/**
 * A key signs for 90 days. Three days are added, because a service that was stopped when the rotation was due rotates
 * late.
 */
const maxKeyAgeMs = 93 * dayMs

/** The parameters that OWASP recommends as a minimum. */
const minCost: PasswordCost = { memory: 47_104, passes: 1, parallelism: 1 }
const hashForm = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),/

const isBelow = ({ memory, passes }: Omit<PasswordCost, 'parallelism'>) =>
  memory < minCost.memory || passes < minCost.passes

const batch = 1_000

/** Counts the stored password hashes that cost less than the minimum. */
async function weakHashes({ read }: DatabaseContext['db']): Promise<number> {
  let weak = 0
  let after: number | null = 0
  while (after !== null) {
    const accounts = read.selectFrom('accounts').select(['userId', 'passwordHash']).where('userId', '>', after)
    const rows: { userId: number; passwordHash: string | null }[] = await accounts
      .orderBy('userId')
      .limit(batch)
      .execute()
    for (const { passwordHash } of rows) {
      if (passwordHash === null) continue
      const [, memory, passes] = hashForm.exec(passwordHash) ?? []
      if (isBelow({ memory: Number(memory ?? 0), passes: Number(passes ?? 0) })) weak += 1
    }
    after = rows.length < batch ? null : (rows.at(-1)?.userId ?? null)
  }
  return weak
}

/** The checks of stored keys and password hashes. */
export const keyChecks: readonly Check<DatabaseContext>[] = [
  {
    id: 'keys.master-fits',
    area: 'keys',
    title: 'Encrypted secrets',
    rule: 'Fails if the key cannot decrypt the secrets in the database',
    run: async ({ db, readSealer }) => {
      const stored = db.read.selectFrom('settings').select('value').where('name', '=', cookieKeysName)
      const sealed = (await stored.executeTakeFirst())?.value
      try {
        const sealer = await readSealer(db.read)
        if (sealer === null) return null
        if (sealed === undefined) return pass('The database contains no secrets yet')
        sealer.open(sealed, cookieKeysContext)
        return pass('The master key decrypts them')
      } catch (error) {
        if (!(error instanceof Unsealable)) throw error
        return fail(
          'The master key is not the key that encrypted the secrets in the database',
          'Restore the master key of this database, in master.key or PLINTH_MASTER_KEY',
        )
      }
    },
  },
  {
    id: 'keys.master-rotation',
    area: 'keys',
    title: 'Master key rotation',
    rule: 'Warns while two master keys are valid, because a rotation is not complete',
    run: async ({ db }) => {
      const keys = await db.read
        .selectFrom('dataKeys')
        .select('fingerprint')
        .distinct()
        .orderBy('fingerprint')
        .execute()
      if (keys.length < 2) return pass('No rotation is in progress')
      const detail = `Two master keys are valid: ${keys.map(({ fingerprint }) => fingerprint).join(' and ')}`
      return warn(detail, 'Complete the rotation with `plinth keys rotate-master`')
    },
  },
  {
    id: 'keys.signing',
    area: 'keys',
    title: 'Signing key',
    rule: 'Warns if the key that signs tokens is older than 93 days',
    run: async ({ db, databaseNow }) => {
      const nowMs = await databaseNow()
      const at = iso(nowMs)
      const keys = await storedSigningKeys(db.read)
      const current = keys.find(({ activeFrom }) => activeFrom <= at)
      if (current === undefined) return pass('The first start creates it')
      const next = keys.find(({ activeFrom }) => activeFrom > at)
      const ageMs = nowMs - Date.parse(current.activeFrom)
      const successor = next === undefined ? '' : `; its successor signs from ${next.activeFrom}`
      const detail = `Has signed for ${ageText(ageMs)}, kid ${current.kid}${successor}`
      if (ageMs <= maxKeyAgeMs) return pass(detail)
      return warn(detail, 'Start a process with the role auth, which rotates keys, or run `plinth keys rotate`')
    },
  },
  {
    id: 'keys.passwords',
    area: 'keys',
    title: 'Password hashes',
    deep: 'also',
    rule: 'Fails if new hashes cost less than 46 MiB of memory in one pass; `--deep` also warns about stored hashes',
    run: async ({ config, db, isDeep }) => {
      const cost = config.passwordCost ?? defaultCost
      const text = `argon2id with ${cost.memory / 1_024} MiB, ${count(cost.passes, 'pass', 'passes')}`
      if (isBelow(cost)) return fail(text, 'Remove the lower cost: it is for tests only')
      if (!isDeep) return pass(text)
      const weak = await weakHashes(db)
      if (weak === 0) return pass(`${text}; every stored hash costs at least the minimum`)
      return warn(
        `${count(weak, 'stored hash', 'stored hashes')} cost less than the minimum`,
        'Invite these users to set new passwords; a login also replaces the hash',
      )
    },
  },
]
