/** Runs in a report thread: generates the report, and posts its progress and outcome. */
import { parentPort, workerData } from 'node:worker_threads'
import { openResults } from '../../files/open.ts'
import { ResultsUnavailable } from '../../files/store.ts'
import { Problem } from '../../http/problems/problem.ts'
import { openSnapshot } from '../../storage/open.ts'
import { renderReport } from './render.ts'
import type { RenderMessage, RenderThreadData } from './worker-thread.ts'

const progressEveryMs = 200

const { order, databaseUrl, resultsUrl } = workerData as RenderThreadData
const post = (message: RenderMessage) => parentPort?.postMessage(message)

let postedMs = 0
function onProgress(share: number): void {
  const nowMs = performance.now()
  if (nowMs - postedMs < progressEveryMs) return
  postedMs = nowMs
  post({ progress: share })
}

async function outcome(): Promise<RenderMessage> {
  const snapshot = await openSnapshot(databaseUrl)
  try {
    return { produced: await renderReport(order, { snapshot, results: await openResults(resultsUrl) }, onProgress) }
  } catch (error) {
    if (error instanceof Problem) return { problem: { code: error.code, detail: error.message } }
    return isOutage(error) ? { unavailable: textOf(error) } : { error }
  } finally {
    await snapshot.close()
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

post(await outcome())
