/** Runs in a report thread: generates one report at a time, and posts its progress and outcome. */
import { parentPort, workerData } from 'node:worker_threads'
import { openResults } from '../../files/open.ts'
import { ResultsUnavailable } from '../../files/store.ts'
import { Problem } from '../../http/problems/problem.ts'
import { openSnapshot } from '../../storage/open.ts'
import type { TaskMessage } from '../../storage/thread-pool.ts'
import { type OnProgress, type RenderJob, renderReport } from './render.ts'
import type { RenderOutcome, ThreadUrls } from './report-threads.ts'

const progressEveryMs = 200

const { databaseUrl, resultsUrl } = workerData as ThreadUrls
// The store keeps connections open for later reports.
const results = await openResults(resultsUrl)
const post = (message: TaskMessage<RenderOutcome, number>) => parentPort?.postMessage(message)

async function render(order: RenderJob): Promise<RenderOutcome> {
  const snapshot = await openSnapshot(databaseUrl)
  try {
    return { produced: await renderReport(order, { snapshot, results }, progressPoster()) }
  } catch (error) {
    if (error instanceof Problem) return { problem: { code: error.code, detail: error.message } }
    return isOutage(error) ? { unavailable: textOf(error) } : { error }
  } finally {
    await snapshot.close()
  }
}

/** Returns a function that posts the progress, but at most once in 200 ms. */
function progressPoster(): OnProgress {
  let postedMs = 0
  return (progress) => {
    const nowMs = performance.now()
    if (nowMs - postedMs < progressEveryMs) return
    postedMs = nowMs
    post({ progress })
  }
}

/** Returns whether the result could not be stored now but might be stored later. */
function isOutage(error: unknown): boolean {
  return (
    error instanceof ResultsUnavailable || ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '')
  )
}

/** Returns an error's message and cause as text, because messages between threads do not preserve error classes. */
function textOf(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error ? `${message}: ${cause.message}` : message
}

parentPort?.on('message', async (order: RenderJob) => post({ outcome: await render(order) }))
