import type { Queryable } from '../storage/database.ts'

/** One attempt of a job. */
export interface Attempt {
  id: string
  /** The number of the attempt, starting at 1. */
  attempt: number
  /** The scheduled time for which the job was added; null if no schedule added it. */
  scheduledFor: string | null
  /** The trace context of the attempt. */
  trace: string | null
  /** Aborted if the job is cancelled, its lease is lost, the attempt takes too long or the service stops. */
  signal: AbortSignal
}

/** A job of the definition, or the job that a schedule adds at each scheduled time. */
export interface ServedJob {
  name: string
  /** How many times a failed job is retried. */
  retries: number
  /** Returns why an input does not match the schema; undefined if it does match. */
  inputError: (input: unknown) => string | undefined
  /** Makes one attempt; rejects if it failed. */
  run: (input: unknown, attempt: Attempt) => Promise<unknown>
}

/** A schedule; the job that it adds has the same name. */
export interface ServedSchedule {
  name: string
  /** Five cron fields. */
  cron: string
  /** The time zone of the fields, such as `Europe/Berlin`. */
  zone: string
  /** After a time without a worker: add one job for all missed times (`once`), or none (`skip`). */
  missed: 'once' | 'skip'
}

/** Returns the cron expression and the time zone as one text, which is stored to detect changes to a schedule. */
export const timingOf = ({ cron, zone }: ServedSchedule): string => `${cron.trim().replace(/\s+/g, ' ')} ${zone}`

/** The jobs and schedules of a definition. */
export interface ServedJobs {
  jobs: ReadonlyMap<string, ServedJob>
  schedules: readonly ServedSchedule[]
}

export const noJobs: ServedJobs = { jobs: new Map(), schedules: [] }

/** Options for adding a job. */
export interface JobOptions {
  /** When the job may start: a delay, as text such as `14 days` or in ms, or a point in time. */
  after?: string | number | Date | undefined
  /** Adds nothing if a job with the same name and key is waiting. */
  key?: string | undefined
  /** The trace context of the request or job that adds the job. */
  trace?: string | null | undefined
}

/**
 * Checks and adds jobs. Both functions throw an error that names the job if it is unknown or an argument is invalid.
 */
export interface JobAdder {
  /** Checks the arguments, without adding anything. */
  check: (name: string, input: unknown, options?: JobOptions) => void
  /** Adds a job in the caller's transaction: the job exists if and only if the transaction commits. */
  enqueue: (tx: Queryable, name: string, input: unknown, options?: JobOptions) => Promise<void>
}
