import type { Database, Queryable } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import type { BackupVerdict } from '../schedule/thread.ts'

/** A process's exclusive right to check a backup. */
export interface VerifyClaim {
  scheduledFor: string
  startedAt: string
}

const leaseMs = 90_000
const heartbeatMs = 20_000

/** Records that this node is checking the backup. Returns undefined if the backup is already being checked. */
export async function claimVerification(
  tx: Queryable,
  scheduledFor: string,
  { node, nowMs }: { node: string; nowMs: number },
): Promise<VerifyClaim | undefined> {
  const startedAt = iso(nowMs)
  const { numUpdatedRows } = await tx
    .updateTable('backups')
    .set({ verifyStatus: 'running', verifyNode: node, verifyStartedAt: startedAt })
    .set({ verifyLeaseUntil: iso(nowMs + leaseMs), verifyFinishedAt: null, verifyError: null })
    .where('scheduledFor', '=', scheduledFor)
    .where((row) =>
      row.or([
        row('verifyStatus', 'is', null),
        row('verifyStatus', '<>', 'running'),
        row('verifyLeaseUntil', '<=', startedAt),
      ]),
    )
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n ? { scheduledFor, startedAt } : undefined
}

export interface VerifyOptions {
  db: Database
  now: () => number
  /** Checks the file; rejects if the check could not be run. */
  check: (signal: AbortSignal) => Promise<BackupVerdict>
  signal: AbortSignal
  onError: (error: unknown) => void
}

/** Runs the check for a claim, and records the outcome. Never rejects. */
export async function verify(claim: VerifyClaim, { db, now, check, signal, onError }: VerifyOptions): Promise<void> {
  const held = (tx: Queryable) =>
    tx
      .updateTable('backups')
      .where('scheduledFor', '=', claim.scheduledFor)
      .where('verifyStartedAt', '=', claim.startedAt)
      .where('verifyStatus', '=', 'running')
  const extend = () =>
    db.write((tx) =>
      held(tx)
        .set({ verifyLeaseUntil: iso(now() + leaseMs) })
        .execute(),
    )
  const beat = setInterval(() => extend().catch(onError), heartbeatMs)
  try {
    const { verifyStatus, verifyError } = await outcomeOf(check, signal, onError)
    const outcome = { verifyStatus, verifyError, verifyFinishedAt: iso(now()) }
    await db.write((tx) => held(tx).set(outcome).execute())
  } catch (error) {
    onError(error)
  } finally {
    clearInterval(beat)
  }
}

async function outcomeOf(check: VerifyOptions['check'], signal: AbortSignal, onError: VerifyOptions['onError']) {
  try {
    const { error } = await check(signal)
    return { verifyStatus: error === null ? 'passed' : 'failed', verifyError: error } as const
  } catch (error) {
    if (signal.aborted) return { verifyStatus: 'error', verifyError: 'The service was stopped' } as const
    onError(error)
    return { verifyStatus: 'error', verifyError: error instanceof Error ? error.message : String(error) } as const
  }
}
