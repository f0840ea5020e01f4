import { parentPort, workerData } from 'node:worker_threads'
import { Problem } from '../../http/problems/problem.ts'
import { openSnapshot } from '../../storage/open.ts'
import { openResults } from '../files/open.ts'
import { renderReport } from './render.ts'
import type { FromThread, ThreadData } from './worker-thread.ts'

/** The thread of one report: generates it, posts its progress, and ends. */
const progressEveryMs = 200

const { order, databaseUrl, resultsUrl } = workerData as ThreadData
const tell = (message: FromThread) => parentPort?.postMessage(message)

let toldMs = 0
function onProgress(share: number): void {
  const nowMs = performance.now()
  if (nowMs - toldMs < progressEveryMs) return
  toldMs = nowMs
  tell({ progress: share })
}

async function made(): Promise<FromThread> {
  const snapshot = await openSnapshot(databaseUrl)
  try {
    return { produced: await renderReport(order, { snapshot, results: await openResults(resultsUrl) }, onProgress) }
  } catch (error) {
    return error instanceof Problem ? { problem: { code: error.code, detail: error.message } } : { error }
  } finally {
    await snapshot.close()
  }
}

tell(await made())
