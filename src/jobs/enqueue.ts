import type { Insertable } from 'kysely'
import type { Queue } from '../queue/queue.ts'
import type { Queryable } from '../storage/database.ts'
import { iso, newOrderedId, type RandomBytes } from '../storage/ids.ts'
import type { DeclaredJobsTable } from '../storage/tables/tasks.ts'
import type { JobAdder, JobOptions, ServedJobs } from './served-jobs.ts'

export interface JobAdderOptions {
  queue: Pick<Queue, 'enqueue'>
  jobs: ServedJobs
  now: () => number
  random: RandomBytes
}

const maxInputBytes = 262_144
const maxKeyLength = 200
const unitMs = { second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000, week: 604_800_000 } as const
const durationForm = /^(\d{1,9}) (second|minute|hour|day|week)s?$/
/** The maximum delay: ten years, including up to three leap days. */
const maxDelayMs = 3_653 * unitMs.day

/** Returns the functions that check and add jobs of a definition. */
export function jobAdder(options: JobAdderOptions): JobAdder {
  const { jobs, now } = options
  const checked = (name: string, input: unknown, { after, key }: JobOptions = {}) => {
    const job = jobs.jobs.get(name)
    if (job === undefined) throw new TypeError(`job ${name}: service() does not have a job of this name`)
    const error = job.inputError(input) ?? keyError(key)
    if (error !== undefined) throw new TypeError(`job ${name}: ${error}`)
    const text = JSON.stringify(input ?? null)
    if (Buffer.byteLength(text) > maxInputBytes) {
      throw new TypeError(`job ${name}: the input must have at most ${maxInputBytes} bytes as JSON`)
    }
    return { name, input: text, dueMs: dueAt(name, after, now()) }
  }
  return {
    check: (name, input, how) => void checked(name, input, how),
    enqueue: async (tx, name, input, how = {}) => {
      const { key, trace = null } = how
      await addJob(options, tx, {
        ...checked(name, input, how),
        trace,
        ...(key !== undefined && { key, waitingKey: key }),
      })
    },
  }
}

type NewJob = Pick<
  Insertable<DeclaredJobsTable>,
  'name' | 'input' | 'key' | 'waitingKey' | 'scheduledFor' | 'trace'
> & {
  dueMs: number
}

/** Adds a job, unless one with the same name and key is waiting. Returns the id of the new or the waiting job. */
export async function addJob(
  { queue, now, random }: Omit<JobAdderOptions, 'jobs'>,
  tx: Queryable,
  { dueMs, ...job }: NewJob,
): Promise<string> {
  const createdAt = iso(now())
  const id = newOrderedId('job', random, createdAt)
  const isDue = dueMs <= now()
  const row = { ...job, id, status: 'waiting', dueAt: iso(dueMs), queued: isDue ? 1 : 0, createdAt } as const
  const added = await tx
    .insertInto('declaredJobs')
    .values(row)
    // The no-op update locks the waiting job, so it starts only after this transaction and sees its writes.
    .onConflict((conflict) =>
      conflict.columns(['name', 'waitingKey']).doUpdateSet((set) => ({ waitingKey: set.ref('excluded.waitingKey') })),
    )
    .returning('id')
    .executeTakeFirstOrThrow()
  if (added.id === id && isDue) await putIntoQueue(queue, tx, { id, turn: 1, trace: job.trace })
  return added.id
}

/** Adds a queue entry for a job. The entry is ignored if the job's `turn` has changed in the meantime. */
export const putIntoQueue = (
  queue: Pick<Queue, 'enqueue'>,
  tx: Queryable,
  { id, turn, trace }: { id: string; turn: number; trace?: string | null | undefined },
) => queue.enqueue(tx, 'job.run', { jobId: id, turn }, { trace })

const keyError = (key: unknown): string | undefined =>
  key === undefined || (typeof key === 'string' && /^[^\0]+$/.test(key) && key.length <= maxKeyLength)
    ? undefined
    : `key must be a text of 1 to ${maxKeyLength} characters`

/** Returns the time from which a job may start, in epoch ms. Throws a `TypeError` if `after` is invalid. */
function dueAt(name: string, after: unknown, nowMs: number): number {
  const delayMs = after === undefined ? 0 : delayOf(after, nowMs)
  if (delayMs === undefined) throw new TypeError(`job ${name}: ${durationError(after)}`)
  if (delayMs > maxDelayMs) throw new TypeError(`job ${name}: after must be at most 10 years`)
  return nowMs + Math.max(0, delayMs)
}

const durationError = (after: unknown) =>
  "after must be a text such as '30 seconds', '10 minutes', '2 hours', '14 days' or '3 weeks', " +
  `a number of milliseconds, or a Date, not ${typeof after === 'string' ? `'${after}'` : String(after)}`

/** Returns a delay in ms; undefined if it is invalid. */
function delayOf(after: unknown, nowMs: number): number | undefined {
  if (after instanceof Date) return Number.isNaN(after.getTime()) ? undefined : after.getTime() - nowMs
  if (typeof after === 'number') return Number.isFinite(after) && after >= 0 ? Math.ceil(after) : undefined
  const [, count, unit] = typeof after === 'string' ? (durationForm.exec(after) ?? []) : []
  return count === undefined ? undefined : Number(count) * unitMs[unit as keyof typeof unitMs]
}
