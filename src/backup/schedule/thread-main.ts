/** The entry point of a backup thread: makes one backup, posts the outcome, and exits. */
import { randomBytes } from 'node:crypto'
import { parentPort, workerData } from 'node:worker_threads'
import { openResults } from '../../reports/files/open.ts'
import { createBackup } from '../create.ts'
import type { FromThread, ThreadData } from './thread.ts'

const { name, backupsUrl, place, version, passphrase } = workerData as ThreadData
const stopping = new AbortController()
parentPort?.on('message', () => stopping.abort())

async function outcome(): Promise<FromThread> {
  try {
    const writer = await (await openResults(backupsUrl)).create(name)
    const { sizeBytes, takenAt, missingResults, damagedResults } = await createBackup(
      {
        ...{ place, version, passphrase, withKeys: true, now: Date.now, random: (size) => randomBytes(size) },
        ...{ signal: stopping.signal, onProgress: () => {} },
      },
      writer,
    )
    const counts = { missingResults: missingResults.length, damagedResults: damagedResults.length }
    return { produced: { sizeBytes, takenAt, ...counts } }
  } catch (error) {
    return { error }
  }
}

parentPort?.postMessage(await outcome())
parentPort?.unref()
