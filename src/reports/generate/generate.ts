import { type ResultStore, ResultsUnavailable } from '../../files/store.ts'
import { Problem } from '../../http/problems/problem.ts'
import { type ClaimedJob, LeaseLost, Stopping, type Work } from '../../queue/queue.ts'
import { iso } from '../../storage/ids.ts'
import type { Task } from '../../storage/tables/tables.ts'
import {
  beginTask,
  finish,
  isCurrent,
  maxAttempts,
  maxFailures,
  progressOf,
  requeue,
  type Transitions,
} from '../task-states.ts'
import { type OrderOptions, renderJob } from './order.ts'
import type { RenderJob } from './render.ts'
import type { Produce } from './report-threads.ts'

export interface GenerateOptions extends Transitions, OrderOptions {
  results: ResultStore
  produce: Produce
  /** How long a result is retained after it is generated, in seconds. */
  resultSeconds: number
  /** Maximum duration of an attempt, in ms. */
  limitMs?: number
  /**
   * Called with each error that makes a task fail permanently, and with errors of progress updates, status checks and
   * cleanup; other errors go to the queue.
   */
  onError?: (error: unknown, taskId: string) => void
}

const maxAttemptMs = 15 * 60_000
const maxOutageMs = 24 * 3_600_000
const checkEveryMs = 400

/**
 * Thrown if the task was cancelled, deleted or taken over while it was being processed. Nothing from this attempt is
 * recorded.
 */
class Ended extends Error {
  override name = 'Ended'
}

/**
 * Handles `report.generate` jobs: makes one attempt at a task. Either finishes the task, or throws so that it can be
 * attempted again.
 */
export const generate =
  (options: GenerateOptions): Work =>
  async (job) => {
    const { taskId } = job.payload as { taskId: string }
    const task = await beginTask(options, taskId)
    // The task has finished, no longer exists, or has no attempts left.
    if (!task) return fail(options, job, taskId, new Error('The attempts ended without an outcome'))
    try {
      await attempt(options, job, task)
    } catch (error) {
      const isInterrupted = error instanceof Stopping || isOutage(options, error, task)
      if (isInterrupted) await requeue(options, task)
      if (isInterrupted || options.db.engine.isUnavailable(error) || !endsTask(error, task)) throw error
      await fail(options, job, taskId, error)
    }
  }

/**
 * Returns whether results cannot be stored at the moment and the task started less than a day ago. An attempt that
 * fails for this reason is not counted; the queue delays the next one.
 */
const isOutage = ({ now }: GenerateOptions, error: unknown, { startedAt }: Task): boolean =>
  error instanceof ResultsUnavailable && now() - Date.parse(startedAt ?? iso(now())) < maxOutageMs

function endsTask(error: unknown, { attempts }: Task): boolean {
  if (error instanceof LeaseLost) return false
  return error instanceof Problem || error instanceof Ended || attempts >= maxFailures
}

async function attempt(options: GenerateOptions, job: ClaimedJob, task: Task): Promise<void> {
  const { results, now, resultSeconds } = options
  const resultKey = keyOf(task.id, job.attempt)
  // Check the store before a retry: if it is still unavailable, generating the report again would be useless.
  if (job.attempt > 1) await results.probe()
  const result = await supervised(options, job, task, await renderJob(options, task, resultKey)).catch(
    async (error) => {
      await abandon(options, task.id, resultKey)
      throw error
    },
  )
  const expiresAt = iso(now() + resultSeconds * 1_000)
  const ending = { status: 'completed', progress: 100, expiresAt, resultKey, ...result } as const
  const completed = await finish(options, job, task.id, ending).catch(async (error) => {
    // Except after `LeaseLost`, the transaction may have committed despite the error; the task then refers to this
    // result.
    if (error instanceof LeaseLost) await results.remove(resultKey)
    throw error
  })
  await removeResults(options, task.id, completed ? job.attempt - 1 : job.attempt)
}

/** Returns the result's key. A job's claims are numbered, so two workers never write the same result. */
const keyOf = (taskId: string, claim: number) => `${taskId}-${claim}`

/** Generates the report within the time limit; aborts if the task is cancelled, deleted or taken over. */
async function supervised(options: GenerateOptions, job: ClaimedJob, task: Task, order: RenderJob) {
  const { produce, limitMs = maxAttemptMs, onError } = options
  const stop = new AbortController()
  const signal = AbortSignal.any([job.signal, stop.signal])
  const late = () => stop.abort(new Problem('INTERNAL_ERROR', 'The report took longer than 15 minutes'))
  const limit = setTimeout(late, limitMs)
  const report = (error: unknown) => onError?.(error, task.id)
  const check = async () => {
    if (!(await isCurrent(options, task))) stop.abort(new Ended('The task has ended in another way'))
  }
  const checking = setInterval(() => check().catch(report), checkEveryMs)
  const saveProgress = progressOf(options, task)
  try {
    // A failed progress update does not abort the report.
    return await produce(order, signal, (share) => saveProgress(share).catch(report))
  } finally {
    clearTimeout(limit)
    clearInterval(checking)
  }
}

async function fail(options: GenerateOptions, job: ClaimedJob, taskId: string, error: unknown): Promise<void> {
  const shown =
    error instanceof Problem
      ? { errorCode: error.code, errorMessage: error.message }
      : { errorCode: 'INTERNAL_ERROR', errorMessage: 'The report could not be generated' }
  const failed = await finish(options, job, taskId, { status: 'failed', ...shown })
  if (!failed) return
  options.onError?.(error, taskId)
  await removeResults(options, taskId, job.attempt)
}

async function abandon({ results, onError }: GenerateOptions, taskId: string, resultKey: string): Promise<void> {
  await results.abandon(resultKey).catch((error) => onError?.(error, taskId))
  await results.remove(resultKey).catch((error) => onError?.(error, taskId))
}

/**
 * Removes results that attempts up to claim `upTo` may have left behind, for example after a crash before the commit.
 * Checks only the last `maxAttempts` claims, because attempts during an outage of the store leave no result. Stops if
 * the store does not respond.
 */
async function removeResults({ results, onError }: GenerateOptions, taskId: string, upTo: number): Promise<void> {
  for (let claim = upTo; claim > Math.max(0, upTo - maxAttempts); claim--) {
    try {
      await results.remove(keyOf(taskId, claim))
    } catch (error) {
      onError?.(error, taskId)
      if (error instanceof ResultsUnavailable) return
    }
  }
}
