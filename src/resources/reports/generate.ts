import type { Task } from '../../db/tables.ts'
import { Problem } from '../../http/problem.ts'
import { type Job, LeaseLost, Stopping, type Work } from '../../queue/queue.ts'
import type { FinishedResult, ResultStore, ResultWriter } from '../../results/store.ts'
import { formats } from './formats.ts'
import type { ReportKind } from './kinds.ts'
import { instant } from './tasks.ts'
import { begin, giveBack, mostAttempts, progressOf, settle, type Transitions } from './transitions.ts'

export interface GenerateOptions extends Transitions {
  results: ResultStore
  kinds: readonly ReportKind[]
  /** How long a result is kept after it was made. */
  resultSeconds: number
  /** Told what made a task fail for good, and which leftovers could not be removed; the queue hears of the rest. */
  onError?: (error: unknown, taskId: string) => void
}

const longestAttemptMs = 15 * 60_000

/** The job `report.generate`: one attempt at a task, which ends it, or leaves it to the next attempt by throwing. */
export const generate =
  (options: GenerateOptions): Work =>
  async (job) => {
    const { taskId } = job.payload as { taskId: string }
    const task = await begin(options, taskId)
    // Ended or gone, or each attempt was cut short together with its process.
    if (!task) return fail(options, job, taskId, new Error('The attempts ended without an outcome'))
    try {
      await attempt(options, job, task)
    } catch (error) {
      if (error instanceof Stopping) await giveBack(options, task)
      if (!endsTask(error, task)) throw error
      await fail(options, job, taskId, error)
    }
  }

function endsTask(error: unknown, { attempts }: Task): boolean {
  if (error instanceof Stopping || error instanceof LeaseLost) return false
  return error instanceof Problem || attempts >= mostAttempts
}

async function attempt(options: GenerateOptions, job: Job, task: Task): Promise<void> {
  const { results, now, resultSeconds } = options
  const resultKey = keyOf(task.id, job.attempt)
  const writer = await results.create(resultKey)
  const result = await produce(options, job, task, writer).catch(async (error) => {
    await writer.discard()
    throw error
  })
  const expiresAt = instant(now() + resultSeconds * 1_000)
  const ending = { status: 'completed', progress: 100, expiresAt, resultKey, ...result } as const
  const completed = await settle(options, job, task.id, ending).catch(async (error) => {
    // After any other failure the commit may have happened all the same, and the result be the task's.
    if (error instanceof LeaseLost) await results.remove(resultKey)
    throw error
  })
  await removeResults(options, task.id, completed ? job.attempt - 1 : job.attempt)
}

/** Claims of a job are numbered, so no two workers ever write the same result. */
const keyOf = (taskId: string, claim: number) => `${taskId}-${claim}`

async function produce(options: GenerateOptions, job: Job, task: Task, writer: ResultWriter) {
  const rowCount = await options.db.snapshot(async (snapshot) => {
    const kind = options.kinds.find(({ name }) => name === task.reportType)
    const rendering = kind && formats.get(task.format)?.start(kind.columns)
    if (!rendering) throw new Problem('INTERNAL_ERROR', 'The report type or format is no longer offered')
    const checkTime = timeLimit(options.now)
    const showProgress = progressOf(options, task)
    const total = await kind.count(snapshot)
    await writer.write(rendering.start)
    let rows = 0
    for await (const page of kind.pages(snapshot)) {
      job.signal.throwIfAborted()
      checkTime()
      await writer.write(rendering.rows(page))
      rows += page.length
      await showProgress(rows / total)
    }
    await writer.write(rendering.end())
    return rows
  })
  const finished: FinishedResult = await writer.finish()
  return { rowCount, ...finished }
}

function timeLimit(now: () => number): () => void {
  const endMs = now() + longestAttemptMs
  return () => {
    if (now() > endMs) throw new Problem('INTERNAL_ERROR', 'The report took longer than 15 minutes')
  }
}

async function fail(options: GenerateOptions, job: Job, taskId: string, error: unknown): Promise<void> {
  const shown =
    error instanceof Problem
      ? { errorCode: error.code, errorMessage: error.message }
      : { errorCode: 'INTERNAL_ERROR', errorMessage: 'The report could not be generated' }
  const failed = await settle(options, job, taskId, { status: 'failed', ...shown })
  if (!failed) return
  options.onError?.(error, taskId)
  await removeResults(options, taskId, job.attempt)
}

/** Removes what claims up to this one may have left behind, such as the result of a crash before its commit. */
async function removeResults({ results, onError }: GenerateOptions, taskId: string, upTo: number): Promise<void> {
  for (let claim = 1; claim <= upTo; claim++) {
    await results.remove(keyOf(taskId, claim)).catch((error) => onError?.(error, taskId))
  }
}
