import type { Database } from '../storage/database.ts'
import { batched } from '../storage/request-counts.ts'
import { sweepBelow } from '../storage/sweep.ts'

/** The number of a client's calls to a version; `clientId` is null for calls without a valid token. */
export interface VersionCalls {
  version: string
  clientId: string | null
  calls: number
  /** When the client last called, as a fixed-width ISO timestamp in UTC. */
  lastCallAt: string
}

export interface VersionCallCounter {
  /** Counts a call in memory; the count is saved later. */
  count: (version: string, clientId: string | null) => void
  /** Saves all counts collected so far. */
  flush: () => Promise<void>
  /** Saves the remaining counts and stops. */
  close: () => Promise<void>
}

export interface VersionCallOptions {
  db: Database
  now: () => number
  onError: (error: unknown) => void
}

interface Counted {
  calls: number
  lastMs: number
}

/**
 * Counts calls to deprecated versions in memory, and saves the counts in batches. Each key joins a version and a client
 * with a space, which version names never contain.
 */
export function versionCallCounter({ db, now, onError }: VersionCallOptions): VersionCallCounter {
  const { add, flush, close } = batched<Counted>({
    write: (counted) => save(db, counted),
    merge: (one, other) => ({ calls: one.calls + other.calls, lastMs: Math.max(one.lastMs, other.lastMs) }),
    onError,
  })
  return {
    count: (version, clientId) => add(`${version} ${clientId ?? ''}`, { calls: 1, lastMs: now() }),
    flush,
    close,
  }
}

const rowsAtOnce = 200

async function save(db: Database, counted: ReadonlyMap<string, Counted>): Promise<void> {
  const rows = [...counted].map(([key, { calls, lastMs }]) => {
    const space = key.indexOf(' ')
    const lastCallAt = new Date(lastMs).toISOString()
    return { version: key.slice(0, space), clientId: key.slice(space + 1), calls, lastCallAt }
  })
  // Sorting prevents deadlocks between nodes that write to the same rows concurrently.
  rows.sort((one, other) => (`${one.version} ${one.clientId}` < `${other.version} ${other.clientId}` ? -1 : 1))
  await db.write(async (tx) => {
    for (let at = 0; at < rows.length; at += rowsAtOnce) {
      await tx
        .insertInto('versionCalls')
        .values(rows.slice(at, at + rowsAtOnce))
        .onConflict((conflict) =>
          conflict.columns(['version', 'clientId']).doUpdateSet((row) => ({
            calls: row('versionCalls.calls', '+', row.ref('excluded.calls')),
            // Keeps the later time, because the node that writes last may have counted only earlier calls.
            lastCallAt: row
              .case()
              .when('versionCalls.lastCallAt', '>', row.ref('excluded.lastCallAt'))
              .then(row.ref('versionCalls.lastCallAt'))
              .else(row.ref('excluded.lastCallAt'))
              .end(),
          })),
        )
        .execute()
    }
  })
}

/** Nobody would read a longer list; operators can query the table for all callers. */
const maxListed = 1_000

/** Returns the callers of each version, most recent first, with at most 1,000 callers per version. */
export async function readVersionCalls({ read }: Database, versions: readonly string[]): Promise<VersionCalls[]> {
  const calls = read.selectFrom('versionCalls').selectAll().orderBy('lastCallAt', 'desc').orderBy('clientId', 'desc')
  const found = await Promise.all(
    versions.map((version) => calls.where('version', '=', version).limit(maxListed).execute()),
  )
  return found.flat().map(({ clientId, ...row }) => ({ ...row, clientId: clientId || null }))
}

const retentionDays = 400
const dayMs = 86_400_000

/** Deletes the counts of clients that have not called for 400 days; returns their number. */
export function expireVersionCalls(db: Database, now: () => number): Promise<number> {
  const before = new Date(now() - retentionDays * dayMs).toISOString()
  return sweepBelow(db, { table: 'version_calls', key: ['version', 'client_id'], column: 'last_call_at' }, before)
}
