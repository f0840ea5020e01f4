import { type Selectable, sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import type { BackupsTable } from '../../storage/tables/tasks.ts'
import type { Progress } from '../create.ts'

/**
 * A run that this node has claimed. Each claim increases `attempt`, so that only the latest holder can finish the run.
 */
export interface Claim {
  scheduledFor: string
  attempt: number
}

export type Run = Selectable<BackupsTable>

/**
 * A claim, or the reason that there is none. `finished`: the run has ended. `busy`: another node is working on a run.
 */
type Claimed = Claim | 'finished' | 'busy'

export const leaseSeconds = 90
/** The number of attempts after which a run is given up, if its process ended during each of them. */
const maxAttempts = 3
/** The number of most recent runs whose rows are kept. */
const maxRuns = 100
/** A request that no node has begun by then is given up. */
const abandonedMs = 5 * 60_000
const noWorker = 'No process with the role worker made it'

/** Returns the most recent scheduled run; undefined if there was none. */
export const lastScheduledRun = (db: Pick<Database, 'read'>): Promise<Run | undefined> =>
  db.read
    .selectFrom('backups')
    .selectAll()
    .where('requestedBy', 'is', null)
    .orderBy('scheduledFor', 'desc')
    .limit(1)
    .executeTakeFirst()

/** Returns the requested run that no node is making and that is not given up; undefined if there is none. */
export const waitingRequest = (db: Pick<Database, 'read'>, nowMs: number): Promise<Run | undefined> =>
  db.read
    .selectFrom('backups')
    .selectAll()
    .where('status', '=', 'running')
    .where('requestedBy', 'is not', null)
    .where('leaseUntil', '<=', iso(nowMs))
    .where((row) => row.or([row('attempts', '>', 0), row('leaseUntil', '>', iso(nowMs - abandonedMs))]))
    .limit(1)
    .executeTakeFirst()

/** Returns a run as it is at this time: a request that no node began in time has failed. */
export function settledRun(run: Run, nowMs: number): Run {
  const givenUpMs = Date.parse(run.leaseUntil) + abandonedMs
  if (run.status !== 'running' || run.attempts > 0 || nowMs < givenUpMs) return run
  return { ...run, status: 'failed', finishedAt: iso(givenUpMs), error: noWorker }
}

/** A request for a backup: who made it, and which node received it. */
export interface RunRequest {
  requestedBy: string
  node: string
  nowMs: number
}

/** Adds a run, which a worker claims. Returns undefined if another run is waiting or in progress. */
export async function requestRun(
  tx: Queryable,
  engine: Pick<Database['engine'], 'name'>,
  { requestedBy, node, nowMs }: RunRequest,
): Promise<Run | undefined> {
  const now = iso(nowMs)
  await lockRuns(tx, engine)
  const current = await running(tx)
    .where('leaseUntil', '>', iso(nowMs - abandonedMs))
    .executeTakeFirst()
  if (current) return undefined
  await tx
    .updateTable('backups')
    .set({ status: 'failed', finishedAt: now, error: noWorker })
    .where('status', '=', 'running')
    .execute()
  const times = { scheduledFor: now, startedAt: now, leaseUntil: now }
  return tx
    .insertInto('backups')
    .values({ ...times, status: 'running', attempts: 0, node, requestedBy })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Returns the most recent run; undefined if there was none. */
export const lastRun = (db: Pick<Database, 'read'>): Promise<Run | undefined> =>
  db.read.selectFrom('backups').selectAll().orderBy('scheduledFor', 'desc').limit(1).executeTakeFirst()

/** Returns the oldest run whose row is kept; rejects if there was none. */
export const firstRun = (db: Pick<Database, 'read'>): Promise<Run> =>
  db.read.selectFrom('backups').selectAll().orderBy('scheduledFor').limit(1).executeTakeFirstOrThrow()

/** Returns the most recent run that completed; undefined if there was none. */
export const lastCompletedRun = (db: Pick<Database, 'read'>): Promise<Run | undefined> =>
  db.read
    .selectFrom('backups')
    .selectAll()
    .where('status', '=', 'completed')
    .orderBy('scheduledFor', 'desc')
    .limit(1)
    .executeTakeFirst()

/** Claims the run for one scheduled time. Only one node gets it, and only while no other run is in progress. */
export async function claimRun(
  db: Database,
  { scheduledFor, node, nowMs }: { scheduledFor: string; node: string; nowMs: number },
): Promise<Claimed> {
  const now = iso(nowMs)
  const held = { node, startedAt: now, leaseUntil: iso(nowMs + leaseSeconds * 1_000) }
  return db.write(async (tx) => {
    await lockRuns(tx, db.engine)
    const busy = await running(tx).where('leaseUntil', '>', now).executeTakeFirst()
    if (busy) return 'busy'
    const ended = { status: 'failed', finishedAt: now, error: 'The process that made it has ended' } as const
    await tx
      .updateTable('backups')
      .set(ended)
      .where('status', '=', 'running')
      .where('attempts', '>', 0)
      .where((row) => row.or([row('scheduledFor', '<', scheduledFor), row('attempts', '>=', maxAttempts)]))
      .execute()
    const first = { scheduledFor, ...held, status: 'running', attempts: 1 } as const
    const added = await tx
      .insertInto('backups')
      .values(first)
      .onConflict((conflict) => conflict.column('scheduledFor').doNothing())
      .executeTakeFirst()
    if (added.numInsertedOrUpdatedRows === 1n) return { scheduledFor, attempt: 1 }
    const again = await tx
      .updateTable('backups')
      .set((row) => ({ ...held, attempts: row('attempts', '+', 1) }))
      .where('scheduledFor', '=', scheduledFor)
      .where('status', '=', 'running')
      .where('leaseUntil', '<=', now)
      .returning('attempts')
      .executeTakeFirst()
    return again ? { scheduledFor, attempt: again.attempts } : 'finished'
  })
}

/** Makes requests and claims wait for each other until the transaction ends, so that each of them sees the others. */
async function lockRuns(tx: Queryable, engine: Pick<Database['engine'], 'name'>): Promise<void> {
  if (engine.name === 'postgres') await sql`lock table backups in share row exclusive mode`.execute(tx)
}

const running = (tx: Queryable) => tx.selectFrom('backups').select('scheduledFor').where('status', '=', 'running')

const heldBy = (tx: Queryable, { scheduledFor, attempt }: Claim) =>
  tx
    .updateTable('backups')
    .where('scheduledFor', '=', scheduledFor)
    .where('attempts', '=', attempt)
    .where('status', '=', 'running')

/** Sets the end of the lease, and the progress; returns false if this node no longer holds the run. */
export async function setLease(db: Database, claim: Claim, untilMs: number, progress?: Progress): Promise<boolean> {
  const changed = await db.write((tx) =>
    heldBy(tx, claim)
      .set({ leaseUntil: iso(untilMs), ...progress })
      .executeTakeFirst(),
  )
  return changed.numUpdatedRows === 1n
}

/** Facts about the file of a backup. */
export interface BackupFile {
  name: string
  location: string
  sizeBytes: number
  sha256: string
  takenAt: string
  encrypted: number
  missingResults: number
  damagedResults: number
}

/** The outcome of a run. */
export type Outcome = BackupFile | { error: string }

/** Records the outcome of a run, and deletes the rows of old runs. */
export async function finishRun(db: Database, claim: Claim, outcome: Outcome, nowMs: number): Promise<void> {
  const status = 'error' in outcome ? 'failed' : 'completed'
  await db.write(async (tx) => {
    await heldBy(tx, claim)
      .set({ status, finishedAt: iso(nowMs), ...outcome })
      .execute()
    const kept = tx.selectFrom('backups').select('scheduledFor').orderBy('scheduledFor', 'desc').limit(maxRuns)
    await tx.deleteFrom('backups').where('scheduledFor', 'not in', kept).execute()
  })
}
