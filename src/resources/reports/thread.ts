import { parentPort, workerData } from 'node:worker_threads'
import { openSnapshot } from '../../db/open-snapshot.ts'
import { Problem } from '../../http/problem.ts'
import { openResults } from '../../results/open.ts'
import type { FromThread, ThreadData } from './in-thread.ts'
import { produce } from './produce.ts'

/** The thread of one report: makes what its data order, tells of its progress, and ends. */
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
    return { produced: await produce(order, { snapshot, results: await openResults(resultsUrl) }, onProgress) }
  } catch (error) {
    return error instanceof Problem ? { problem: { code: error.code, detail: error.message } } : { error }
  } finally {
    await snapshot.close()
  }
}

tell(await made())
