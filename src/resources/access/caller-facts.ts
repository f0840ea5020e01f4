import { type Caller, isUserId } from '../../http/policies/authenticate.ts'
import type { Database } from '../../storage/database.ts'
import type { CallerFacts } from './rules.ts'

const maxAgeMs = 5_000
const maxCached = 10_000

/**
 * Returns the function that reads what is known about a caller. Results are cached for five seconds, so that a changed role
 * takes effect within that time.
 */
export function callerFacts({ db, now }: { db: Database; now: () => number }) {
  const cached = new Map<string, { readAt: number; facts: Promise<CallerFacts> }>()
  return ({ clientId, subject }: Caller): Promise<CallerFacts> => {
    const key = JSON.stringify([clientId, subject])
    const known = cached.get(key)
    const at = now()
    if (known && at >= known.readAt && at - known.readAt < maxAgeMs) return known.facts
    if (cached.size >= maxCached) cached.clear()
    const facts = readFacts(db, clientId, subject)
    cached.set(key, { readAt: at, facts })
    // A failure is not cached.
    facts.catch(() => cached.delete(key))
    return facts
  }
}

async function readFacts({ reserved }: Database, clientId: string, subject: string): Promise<CallerFacts> {
  const client = { id: clientId }
  if (subject === clientId || !isUserId(subject)) return { client }
  const user = await reserved.read
    .selectFrom('users')
    .leftJoin('accounts', 'accounts.userId', 'users.id')
    .select(['users.id', 'users.name', 'users.email', 'accounts.role'])
    .where('users.id', '=', Number(subject))
    .executeTakeFirst()
  return user ? { user, client } : { client }
}
