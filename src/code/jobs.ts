import { type Static, type TSchema, Type } from 'typebox'
import { DefinitionError } from '../startup-errors.ts'
import type { Queryable } from '../storage/database.ts'
import type { Enqueued, EnqueueOptions, JobContext } from './context-types.ts'
import { type Made, made } from './made.ts'

/** A kind of background job, as returned by `job()`. */
export interface Job<Input = never> extends Enqueued<Input> {
  /** The job's name, such as `invoice.remind`. */
  readonly name: string
  /** The schema of the input. */
  readonly input: TSchema | undefined
  /** Maximum number of retries after a failure. */
  readonly retries: number
  readonly run: (input: Input, context: JobContext) => unknown
}

/** A function to run at fixed times, as returned by `schedule()`. */
export interface Schedule extends Made<'schedule'> {
  readonly name: string
  /** Five fields: minute, hour, day of the month, month, day of the week. */
  readonly cron: string
  /** The time zone of the fields; undefined for the zone of the service. */
  readonly zone: string | undefined
  /** How to handle times that passed while no worker was running: run once for all of them, or skip them. */
  readonly missed: 'once' | 'skip'
  readonly retries: number
  readonly run: (context: JobContext) => unknown
}

/** The queue to which the author's code adds jobs. */
export interface JobQueue {
  /**
   * Throws for an unknown job, invalid input or invalid options. Called at once, so that the stack trace contains the
   * author's line.
   */
  check: (jobName: string, input: unknown, options: EnqueueOptions) => void
  /** Adds a job in the given transaction; the job starts after the commit. */
  enqueue: (tx: Queryable, jobName: string, input: unknown, options: EnqueueOptions) => Promise<void>
}

interface JobDetails<S extends TSchema> {
  /** The schema of the input. */
  input: S
  /** How many times a failed job is retried; default 5. */
  retries?: number
  /** Runs outside a transaction. If it rejects, the job is retried, so it may run more than once. */
  run: (input: Static<S>, context: JobContext) => unknown
}

interface ScheduleDetails {
  /** The time zone, such as `Europe/Berlin`; default: the zone of the service. */
  zone?: string
  /** How to handle times that passed while no worker was running: run once for all of them (default), or skip them. */
  missed?: 'once' | 'skip'
  /** How many times a failed run is retried; default 5. */
  retries?: number
}

const nameForm = /^[a-z][a-z0-9]*([._-][a-z0-9]+)*$/
const maxNameLength = 100
const defaultRetries = 5
const maxRetries = 100

/** Declares a job. Throws `DefinitionError` if the declaration is invalid. */
export function job<S extends TSchema>(name: string, details: JobDetails<S>): Job<Static<S>> {
  const label = `job ${String(name)}`
  const { input, retries = defaultRetries, run } = details ?? {}
  const errors = [
    ...commonErrors(label, name, retries, run),
    ...(Type.IsObject(input) ? [] : [`${label}: input must be created with Type.Object()`]),
  ]
  if (errors.length > 0) throw new DefinitionError(errors)
  return made('job', label, { name, input, retries, run })
}

type ScheduledRun = (context: JobContext) => unknown

/**
 * Declares a schedule: a cron expression with five fields, and the function to run at its times. Throws
 * `DefinitionError` if an argument is invalid; `checkSchedules` checks the expression and the time zone.
 */
export function schedule(name: string, cron: string, run: ScheduledRun): Schedule
export function schedule(name: string, cron: string, details: ScheduleDetails, run: ScheduledRun): Schedule
export function schedule(name: string, cron: string, ...rest: readonly unknown[]): Schedule {
  const label = `schedule ${String(name)}`
  const [details, run] = (rest.length === 1 ? [{}, ...rest] : rest) as [ScheduleDetails | undefined, ScheduledRun]
  const { zone, missed = 'once', retries = defaultRetries } = details ?? {}
  const errors = [
    ...commonErrors(label, name, retries, run),
    ...(typeof cron === 'string'
      ? []
      : [`${label}: the second argument must be a cron expression, such as '0 8 * * 1-5'`]),
    ...(['once', 'skip'].includes(missed) ? [] : [`${label}: missed must be 'once' or 'skip', not '${missed}'`]),
  ]
  if (errors.length > 0) throw new DefinitionError(errors)
  return made('schedule', label, { name, cron, zone, missed, retries, run })
}

function commonErrors(label: string, name: unknown, retries: unknown, run: unknown): string[] {
  const isName = typeof name === 'string' && nameForm.test(name) && name.length <= maxNameLength
  const isCount = Number.isInteger(retries) && (retries as number) >= 0 && (retries as number) <= maxRetries
  return [
    ...(isName ? [] : [`${label}: the name must be lower-case, such as 'invoice.remind', with at most 100 characters`]),
    ...(isCount ? [] : [`${label}: retries must be a whole number from 0 to ${maxRetries}, not ${retries}`]),
    ...(typeof run === 'function' ? [] : [`${label}: run must be a function`]),
  ]
}
