import { type Selectable, sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import type { BackupsTable } from '../../storage/tables/tasks.ts'
import type { BackupProgress } from '../create.ts'

/** A run claimed by this node. Each claim increments `attempt`, so that only the latest claimant can finish the run. */
export interface RunClaim {
  scheduledFor: string
  attempt: number
}

export type BackupRun = Selectable<BackupsTable>

/** A claim, or the reason why there is none: the run has `finished`, or another node is `busy` with a run. */
type Claimed = RunClaim | 'finished' | 'busy'

export const runLeaseSeconds = 90
/** Maximum number of attempts. If the process exits during each of them, the run has failed. */
const maxAttempts = 3
/** Number of recent runs to store. */
const maxRuns = 100
/** How long a requested run waits for a node before it fails. */
const abandonedMs = 5 * 60_000
const noWorker = 'No process with the role worker made it'

/** Returns the most recent scheduled run; undefined if there was none. */
export const lastScheduledRun = (db: Pick<Database, 'read'>): Promise<BackupRun | undefined> =>
  db.read
    .selectFrom('backups')
    .selectAll()
    .where('requestedBy', 'is', null)
    .orderBy('scheduledFor', 'desc')
    .limit(1)
    .executeTakeFirst()

/** Returns the requested run that is waiting for a node; undefined if there is none, or if it has waited too long. */
export const waitingRequest = (db: Pick<Database, 'read'>, nowMs: number): Promise<BackupRun | undefined> =>
  db.read
    .selectFrom('backups')
    .selectAll()
    .where('status', '=', 'running')
    .where('requestedBy', 'is not', null)
    .where('leaseUntil', '<=', iso(nowMs))
    .where((row) => row.or([row('attempts', '>', 0), row('leaseUntil', '>', iso(nowMs - abandonedMs))]))
    .limit(1)
    .executeTakeFirst()

/** Returns a run with its status at this time. A requested run has failed if no node started it in time. */
export function settledRun(run: BackupRun, nowMs: number): BackupRun {
  const givenUpMs = Date.parse(run.leaseUntil) + abandonedMs
  if (run.status !== 'running' || run.attempts > 0 || nowMs < givenUpMs) return run
  return { ...run, status: 'failed', finishedAt: iso(givenUpMs), error: noWorker }
}

/** A request for a backup: who made the request, and which node received it. */
export interface RunRequest {
  requestedBy: string
  node: string
  nowMs: number
}

/** Adds a run for a worker to claim. Returns undefined if another run is waiting or in progress. */
export async function requestRun(
  tx: Queryable,
  engine: Pick<Database['engine'], 'name'>,
  { requestedBy, node, nowMs }: RunRequest,
): Promise<BackupRun | undefined> {
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
export const lastRun = (db: Pick<Database, 'read'>): Promise<BackupRun | undefined> =>
  db.read.selectFrom('backups').selectAll().orderBy('scheduledFor', 'desc').limit(1).executeTakeFirst()

/** Returns the oldest stored run; rejects if there are no runs. */
export const firstRun = (db: Pick<Database, 'read'>): Promise<BackupRun> =>
  db.read.selectFrom('backups').selectAll().orderBy('scheduledFor').limit(1).executeTakeFirstOrThrow()

/** Returns the most recent run that completed; undefined if there was none. */
export const lastCompletedRun = (db: Pick<Database, 'read'>): Promise<BackupRun | undefined> =>
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
  const held = { node, startedAt: now, leaseUntil: iso(nowMs + runLeaseSeconds * 1_000) }
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

/** Serializes requests and claims until the transaction ends, so that each of them sees the others. */
async function lockRuns(tx: Queryable, engine: Pick<Database['engine'], 'name'>): Promise<void> {
  if (engine.name === 'postgres') await sql`lock table backups in share row exclusive mode`.execute(tx)
}

const running = (tx: Queryable) => tx.selectFrom('backups').select('scheduledFor').where('status', '=', 'running')

const heldBy = (tx: Queryable, { scheduledFor, attempt }: RunClaim) =>
  tx
    .updateTable('backups')
    .where('scheduledFor', '=', scheduledFor)
    .where('attempts', '=', attempt)
    .where('status', '=', 'running')

/** Sets the end of the lease and the progress; returns false if this node no longer holds the claim. */
export async function setLease(
  db: Database,
  claim: RunClaim,
  untilMs: number,
  progress?: BackupProgress,
): Promise<boolean> {
  const changed = await db.write((tx) =>
    heldBy(tx, claim)
      .set({ leaseUntil: iso(untilMs), ...progress })
      .executeTakeFirst(),
  )
  return changed.numUpdatedRows === 1n
}

/** The properties of a backup's file. */
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
export type RunOutcome = BackupFile | { error: string }

/** Records the outcome of a run, and deletes the rows of old runs. */
export async function finishRun(db: Database, claim: RunClaim, outcome: RunOutcome, nowMs: number): Promise<void> {
  const status = 'error' in outcome ? 'failed' : 'completed'
  await db.write(async (tx) => {
    await heldBy(tx, claim)
      .set({ status, finishedAt: iso(nowMs), ...outcome })
      .execute()
    const kept = tx.selectFrom('backups').select('scheduledFor').orderBy('scheduledFor', 'desc').limit(maxRuns)
    await tx.deleteFrom('backups').where('scheduledFor', 'not in', kept).execute()
  })
}
