import { type Caller, isUserId } from '../../http/policies/authenticate.ts'
import type { Database } from '../../storage/database.ts'
import type { CallerFacts } from './rules.ts'

const maxAgeMs = 5_000
const maxCached = 10_000

type User = NonNullable<CallerFacts['user']>

/** Reads the facts about a user; undefined if the user does not exist. */
export type ReadUser = (id: number) => Promise<User | undefined>

export interface CallerFactsOptions {
  db: Database
  now: () => number
  /** By default, reads the name, the e-mail address and the role. */
  readUser?: ReadUser | undefined
}

interface Cached {
  readAt: number
  facts: Promise<CallerFacts>
}

/**
 * Returns the function that reads the facts about a caller. It caches results for five seconds, so a change to the
 * user's role or fields or to the client's labels takes effect within that time.
 */
export function callerFacts({ db, now, readUser = userReader(db) }: CallerFactsOptions) {
  const cached = new Map<string, Cached>()
  // Requests with the same token share a caller object, so the object can be the key of this lookup.
  const byCaller = new WeakMap<Caller, Cached>()
  return (caller: Caller): Promise<CallerFacts> => {
    const at = now()
    const isCurrent = ({ readAt }: Cached) => at >= readAt && at - readAt < maxAgeMs
    const same = byCaller.get(caller)
    if (same && isCurrent(same)) return same.facts
    const { clientId, subject } = caller
    const key = JSON.stringify([clientId, subject])
    const known = cached.get(key)
    if (known && isCurrent(known)) {
      byCaller.set(caller, known)
      return known.facts
    }
    if (cached.size >= maxCached) cached.clear()
    const facts = readFacts(db, readUser, clientId, subject)
    const entry = { readAt: at, facts }
    cached.set(key, entry)
    // Failures are not cached.
    facts.catch(() => {
      entry.readAt = Number.NEGATIVE_INFINITY
      cached.delete(key)
    })
    return facts
  }
}

async function readFacts(db: Database, readUser: ReadUser, clientId: string, subject: string): Promise<CallerFacts> {
  const [labels, user] = await Promise.all([
    labelsOf(db, clientId),
    subject === clientId || !isUserId(subject) ? undefined : readUser(Number(subject)),
  ])
  const client = { id: clientId, labels }
  return user ? { user, client } : { client }
}

/** Reads a client's labels; none if the client was revoked or is not registered here (a trusted issuer's client). */
async function labelsOf({ reserved }: Database, clientId: string): Promise<CallerFacts['client']['labels']> {
  const find = reserved.read.selectFrom('clients').select('labels').where('id', '=', clientId)
  const row = await find.where('revokedAt', 'is', null).executeTakeFirst()
  // Without a prototype, names such as `constructor` are undefined unless a label with that name is set.
  return Object.freeze({ __proto__: null, ...(row && JSON.parse(row.labels)) })
}

const userReader =
  ({ reserved }: Database): ReadUser =>
  async (id) => {
    const user = await reserved.read
      .selectFrom('users')
      .leftJoin('accounts', 'accounts.userId', 'users.id')
      .select(['users.id', 'users.name', 'users.email', 'accounts.role'])
      .where('users.id', '=', id)
      .executeTakeFirst()
    return user && { ...user, roles: user.role === null ? [] : [user.role] }
  }
