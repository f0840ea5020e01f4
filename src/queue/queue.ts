import type { Queryable } from '../storage/database.ts'

/** The kinds of work that outlive a request: how many of each one node runs at a time, and all nodes for one group. */
export const queues = {
  'report.generate': { concurrency: 5, perGroup: 5 },
  // Worked on together: as many as there are, up to so many in one transaction.
  'event.fan-out': { concurrency: 512, perGroup: null },
  'delivery.send': { concurrency: 128, perGroup: null },
  'webhook.settle': { concurrency: 1, perGroup: null },
  'webhook.replay': { concurrency: 1, perGroup: null },
} as const

export type QueueName = keyof typeof queues

/** Where a job stands among those that are due: low turns go first, and no group has more than its share running. */
export interface Place {
  group: string
  turn: number
}

/** A claim on a job: `fence` grows with each claim, so that only the newest holder can finish the job. */
export interface Lease {
  id: string
  queue: QueueName
  fence: number
  payload: unknown
  /** 1 for the first claim of this job. */
  attempt: number
}

/** What an engine must offer; everything above it is shared. */
export interface JobStore {
  add: (tx: Queryable, queue: QueueName, payload: object, runAt: number, place?: Place) => Promise<void>
  claim: (queue: QueueName, limit: number) => Promise<Lease[]>
  /** Extends a lease by `leaseSeconds`; false when it is lost. */
  extend: (lease: Lease) => Promise<boolean>
  /** Removes jobs of one queue inside the caller's transaction; false when a lease is lost. */
  finish: (tx: Queryable, leases: readonly Lease[]) => Promise<boolean>
  /** Gives the job back, to be claimed by anybody after `delayMs`. */
  release: (lease: Lease, delayMs: number) => Promise<void>
  /** When the next job of the queue can be claimed, in epoch ms; null when that is unknown or never. */
  nextDue: (queue: QueueName) => Promise<number | null>
  /** Calls back as soon as a job of a queue may be due. */
  onWake: (wake: (queue: QueueName) => void) => void
  /** The longest time between two looks at an idle queue, in ms: the safety net below wake-ups. */
  idlePollMs: number
  close: () => Promise<void>
}

export const leaseSeconds = 30
export const heartbeatSeconds = 10

/** A job in a worker's hands. */
export interface Job {
  payload: unknown
  attempt: number
  /** Aborted when the lease is lost or the service stops. */
  signal: AbortSignal
  /** Finishes the job inside the transaction that records its outcome. Throws `LeaseLost` to undo a stale one. */
  finish: (tx: Queryable) => Promise<void>
}

export type Work = (job: Job) => Promise<void>

/** Jobs that are worked on together; `finish` finishes all of them, or throws `LeaseLost`. */
export interface Batch extends Pick<Job, 'signal' | 'finish'> {
  payloads: readonly unknown[]
}

/** Work on many jobs at once; when it fails, each of them is tried alone. */
export type WorkTogether = (batch: Batch) => Promise<void>

/** Another worker may hold the job by now: whatever this one did must not become visible. */
export class LeaseLost extends Error {
  override name = 'LeaseLost'
}

/** Why `signal` of a job was aborted by a stopping service: give the job back, it is nobody's failure. */
export class Stopping extends Error {
  override name = 'Stopping'
}

export interface EnqueueOptions {
  delayMs?: number
  place?: Place
}

export interface Queue {
  /** Adds a job inside the caller's transaction: it exists if and only if that commits. */
  enqueue: (tx: Queryable, queue: QueueName, payload: object, options?: EnqueueOptions) => Promise<void>
  /** Starts working on a queue in this process: on each job by itself, or on all that can be claimed at once. */
  work: (queue: QueueName, work: Work | { together: WorkTogether }) => void
  /** Stops claiming, lets running work end for up to `graceMs`, gives back the rest; adds jobs until `lastAdded`. */
  stop: (graceMs: number, lastAdded?: Promise<unknown>) => Promise<void>
}
