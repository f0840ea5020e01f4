/** The entry point of a report thread: generates the report, posts its progress, and exits. */
import { parentPort, workerData } from 'node:worker_threads'
import { openResults } from '../../files/open.ts'
import { ResultsUnavailable } from '../../files/store.ts'
import { Problem } from '../../http/problems/problem.ts'
import { openSnapshot } from '../../storage/open.ts'
import { renderReport } from './render.ts'
import type { FromThread, ThreadData } from './worker-thread.ts'

const progressEveryMs = 200

const { order, databaseUrl, resultsUrl } = workerData as ThreadData
const post = (message: FromThread) => parentPort?.postMessage(message)

let postedMs = 0
function onProgress(share: number): void {
  const nowMs = performance.now()
  if (nowMs - postedMs < progressEveryMs) return
  postedMs = nowMs
  post({ progress: share })
}

async function outcome(): Promise<FromThread> {
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

/** Returns whether the result could not be stored now, although it can be later. */
function isOutage(error: unknown): boolean {
  return (
    error instanceof ResultsUnavailable || ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '')
  )
}

/** Messages between threads contain no error classes, so the cause becomes part of the text. */
function textOf(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error ? `${message}: ${cause.message}` : message
}

post(await outcome())
