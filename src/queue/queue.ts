import type { Queryable } from '../storage/database.ts'

/** The job queues, with the maximum concurrency per node and the maximum per group across all nodes. */
export const queues = {
  'report.generate': { concurrency: 5, perGroup: 5 },
  // All due jobs, up to this many, are processed as a batch in one transaction.
  'event.fan-out': { concurrency: 512, perGroup: null },
  'delivery.send': { concurrency: 128, perGroup: null },
  'webhook.settle': { concurrency: 1, perGroup: null },
  'webhook.replay': { concurrency: 1, perGroup: null },
  // Jobs that the definition declares. PLINTH_JOB_CONCURRENCY overrides the concurrency.
  'job.run': { concurrency: 10, perGroup: null },
} as const

export type QueueName = keyof typeof queues

/** A job's position in the claim order: lower turns go first, and no group runs more jobs than its limit. */
export interface QueuePosition {
  group: string
  turn: number
}

/** A claim on a job. `fence` increases with each claim, so only the latest holder can finish the job. */
export interface Lease {
  id: string
  queue: QueueName
  fence: number
  payload: unknown
  /** The number of times that this job has been claimed, including this claim. */
  attempt: number
}

/** The queue operations that each engine implements. All other code is shared. */
export interface JobStore {
  add: (tx: Queryable, queue: QueueName, payload: object, runAt: number, position?: QueuePosition) => Promise<void>
  claim: (queue: QueueName, limit: number) => Promise<Lease[]>
  /** Extends a lease to `leaseSeconds` from now; returns false if the lease was lost. */
  extend: (lease: Lease) => Promise<boolean>
  /** Removes jobs from one queue inside the caller's transaction; false if a lease was lost. */
  finish: (tx: Queryable, leases: readonly Lease[]) => Promise<boolean>
  /** Returns the job to the queue; any worker may claim it after `delayMs`. */
  release: (lease: Lease, delayMs: number) => Promise<void>
  /** Returns when the next job in the queue can be claimed, in epoch ms; null if unknown or never. */
  nextDue: (queue: QueueName) => Promise<number | null>
  /** Registers a callback to run when a job in a queue may be due. */
  onWake: (wake: (queue: QueueName) => void) => void
  /** Maximum time between two polls of an idle queue, in ms, in case the wake-up is missed. */
  idlePollMs: number
  close: () => Promise<void>
}

/** The number of unclaimed jobs in a queue, and when the oldest of them became due. */
export interface WaitingJobs {
  waiting: number
  /** When the oldest due job became due, in ms since the epoch; null if no job is due. */
  dueSinceMs: number | null
}

/** The backlog of a queue. */
export interface Backlog extends WaitingJobs {
  queue: QueueName
}

/** One call to a queue's work function, with a single job or with several jobs processed together. */
export interface WorkCall {
  queue: QueueName
  jobs: number
  seconds: number
  /** `returned`: the lease was lost or the service is stopping, so the job will be processed again. */
  outcome: 'done' | 'failed' | 'returned'
}

/** Waiting jobs are counted up to this number. */
export const maxCounted = 10_000

export const leaseSeconds = 30
export const heartbeatSeconds = 10

/** A claimed job. */
export interface ClaimedJob {
  payload: unknown
  attempt: number
  /**
   * The trace context of the job's own span, if there is one; otherwise, the trace context of the request or job that
   * added this job.
   */
  trace?: string | null
  /** Aborted when the lease is lost or the service stops. */
  signal: AbortSignal
  /** Finishes the job in the transaction that records its outcome. Throws `LeaseLost` to roll back a stale claim. */
  finish: (tx: Queryable) => Promise<void>
}

export type Work = (job: ClaimedJob) => Promise<void>

/** Jobs processed together; `finish` finishes all of them, or throws `LeaseLost`. */
export interface Batch extends Pick<ClaimedJob, 'signal' | 'finish'> {
  payloads: readonly unknown[]
}

/** Processes many jobs at once; if it fails, each job is retried individually. */
export type WorkTogether = (batch: Batch) => Promise<void>

/** Thrown if the lease expired. Another worker may hold the job, so this worker's changes must be rolled back. */
export class LeaseLost extends Error {
  override name = 'LeaseLost'
}

/** Abort reason when the service stops: the job returns to the queue and does not count as failed. */
export class Stopping extends Error {
  override name = 'Stopping'
}

export interface QueueJobOptions {
  delayMs?: number
  /** The trace context of the request or job that adds the job; stored in the payload as `trace`. */
  trace?: string | null | undefined
  position?: QueuePosition
}

export interface Queue {
  /** Adds a job inside the caller's transaction: the job exists if and only if the transaction commits. */
  enqueue: (tx: Queryable, queue: QueueName, payload: object, options?: QueueJobOptions) => Promise<void>
  /** Starts processing a queue in this process: each job individually, or all claimable jobs as a batch. */
  work: (queue: QueueName, work: Work | { together: WorkTogether }) => void
  /**
   * Stops claiming jobs. Gives running jobs up to `graceMs` to finish, and then returns the rest to the queue. Accepts
   * new jobs until `lastAdded` settles.
   */
  stop: (graceMs: number, lastAdded?: Promise<unknown>) => Promise<void>
}

/** A queue that also reports its backlog and its running jobs. */
export interface MeasuredQueue extends Queue {
  /** Returns the backlog of every queue. */
  backlog: () => Promise<Backlog[]>
  /** Returns the number of jobs of every queue that this thread is running. */
  running: () => { queue: QueueName; jobs: number }[]
}

/** Called with the error of a job, or of the queue itself if no job is given. */
export type OnQueueError = (error: unknown, queue: QueueName, job?: Pick<Lease, 'id' | 'attempt' | 'payload'>) => void

/** The span of a run: the trace context for everything that its jobs cause, and a function that ends the span. */
export interface JobSpan {
  trace: string
  end: (error?: unknown) => void
}

/** Starts a span for a run of one or more jobs. `traces` contains the trace contexts of the jobs that have one. */
export type StartJobSpan = (run: { queue: QueueName; traces: string[]; count: number; attempt: number }) => JobSpan

/** Returns the trace context that `enqueue` stored in the payload; null if there is none. */
export const payloadTrace = ({ payload }: Pick<Lease, 'payload'>) =>
  (payload as { trace?: string } | null)?.trace ?? null
