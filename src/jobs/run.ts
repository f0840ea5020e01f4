import { type ClaimedJob, LeaseLost, Stopping, type Work } from '../queue/queue.ts'
import type { Database } from '../storage/database.ts'
import type { Cancellations } from './cancellations.ts'
import type { ServedJob, ServedJobs } from './served-jobs.ts'
import { beginJob, interrupt, type JobRow, type QueuedJob, recordOutcome, setAside } from './states.ts'

/** A failed attempt. `retryAt` is null if the job will not be retried. */
export interface FailedAttempt {
  jobId: string
  job: string
  attempt: number
  retryAt: string | null
}

export interface JobRunOptions {
  db: Database
  jobs: ServedJobs
  cancellations: Cancellations
  now: () => number
  /** Returns a random number from 0 to 1, used to vary the delay before a retry. */
  jitter: () => number
  /** Masks credentials in a text. */
  redact: (text: string) => string
  onFailed: (error: unknown, attempt: FailedAttempt) => void
  /** Called after the outcome of an attempt has been recorded. */
  onEnded?: (job: string, outcome: 'completed' | 'failed' | 'retried') => void
  /** How long an attempt may take, in ms; default 12 hours. */
  limitMs?: number
  /** How long to wait for an attempt to end after aborting its signal, in ms; default 10 seconds. */
  graceMs?: number
}

const maxAttemptMs = 12 * 3_600_000
const maxGraceMs = 10_000
/** A job fails if its process ends during more than this many attempts, because the job itself may be the cause. */
const maxInterruptions = 5
const maxErrorLength = 2_000
const [minBackoffMs, maxBackoffMs] = [10_000, 6 * 3_600_000]

/** Returns how long to wait after the given number of failures: 10 s, 30 s, 90 s, … up to 6 h, each ±20 %. */
export const backoffMs = (failures: number, jitter: () => number): number =>
  Math.round(Math.min(minBackoffMs * 3 ** (failures - 1), maxBackoffMs) * (0.8 + 0.4 * jitter()))

/** Thrown if an input does not match the schema; the job then fails without a retry. */
class InvalidInput extends Error {
  override name = 'InvalidInput'
}

/** Handles entries of the queue `job.run`: makes one attempt at a job and records the outcome. */
export const runJobs =
  (options: JobRunOptions): Work =>
  async (job) => {
    const { db, jobs, now } = options
    const queued = job.payload as QueuedJob
    const row = await beginJob(db, queued, [...jobs.jobs.keys()], now())
    const served = row && jobs.jobs.get(row.name)
    if (row === undefined || served === undefined) return setAside(db, queued, job)
    if (row.interruptions > maxInterruptions) {
      return fail(options, { served, row, job }, new Error(`The process ended during ${row.interruptions} attempts`))
    }
    const cancelled = options.cancellations.watch(row)
    try {
      await attempt(options, served, row, job, cancelled.signal)
    } catch (error) {
      const { reason } = job.signal
      if (reason instanceof LeaseLost) throw reason
      if (!cancelled.signal.aborted && reason instanceof Stopping) {
        await interrupt(db, row)
        throw reason
      }
      return fail(options, { served, row, job }, error)
    } finally {
      cancelled.release()
    }
    if (await recordOutcome(db, row, job, { status: 'completed' }, now())) options.onEnded?.(row.name, 'completed')
  }

/**
 * Runs the code of a job. Rejects if the input is invalid, the code fails, or the code is still running `graceMs`
 * after its signal was aborted.
 */
async function attempt(
  options: JobRunOptions,
  served: ServedJob,
  row: JobRow,
  job: ClaimedJob,
  cancelled: AbortSignal,
) {
  const { limitMs = maxAttemptMs, graceMs = maxGraceMs } = options
  const input = JSON.parse(row.input) as unknown
  const invalid = served.inputError(input)
  if (invalid !== undefined) throw new InvalidInput(invalid)
  const late = new AbortController()
  const limit = setTimeout(() => late.abort(new Error(`The attempt took longer than ${limitMs} ms`)), limitMs)
  const signal = AbortSignal.any([job.signal, cancelled, late.signal])
  const abandoned = Promise.withResolvers<never>()
  let grace: NodeJS.Timeout | undefined
  const onAbort = () => {
    grace = setTimeout(() => abandoned.reject(signal.reason), graceMs)
  }
  signal.addEventListener('abort', onAbort)
  const { id, attempts, scheduledFor } = row
  const run = async () => served.run(input, { id, attempt: attempts, scheduledFor, trace: job.trace ?? null, signal })
  try {
    signal.throwIfAborted()
    await Promise.race([run(), abandoned.promise])
  } catch (error) {
    throw late.signal.aborted ? late.signal.reason : error
  } finally {
    signal.removeEventListener('abort', onAbort)
    clearTimeout(limit)
    clearTimeout(grace)
  }
}

/** Records a failed attempt: the job waits for a retry, or fails if no retries are left. */
async function fail(
  { db, now, jitter, redact, onFailed, onEnded }: JobRunOptions,
  { served, row, job }: { served: ServedJob; row: JobRow; job: ClaimedJob },
  error: unknown,
): Promise<void> {
  const failures = row.failures + 1
  const isLast = failures > served.retries || error instanceof InvalidInput || row.interruptions > maxInterruptions
  const text = errorText(error, redact)
  const retryAtMs = now() + backoffMs(failures, jitter)
  const outcome = isLast
    ? ({ status: 'failed', error: text } as const)
    : ({ status: 'waiting', error: text, retryAtMs } as const)
  if (!(await recordOutcome(db, row, job, outcome, now()))) return
  const retryAt = isLast ? null : new Date(retryAtMs).toISOString()
  onFailed(error, { jobId: row.id, job: row.name, attempt: row.attempts, retryAt })
  onEnded?.(row.name, isLast ? 'failed' : 'retried')
}

/** Returns the text of an error to store: without credentials, and at most 2,000 characters. */
function errorText(error: unknown, redact: (text: string) => string): string {
  const text = redact(error instanceof Error ? `${error.name}: ${error.message}` : String(error))
  // PostgreSQL cannot store NUL.
  const stored = text.replaceAll('\0', '\ufffd').toWellFormed()
  return stored.length > maxErrorLength ? `${stored.slice(0, maxErrorLength - 1).toWellFormed()}…` : stored
}
