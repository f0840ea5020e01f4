/** The entry point of a backup thread: makes or checks one backup, posts the outcome, and exits. */
import { randomBytes } from 'node:crypto'
import { parentPort, workerData } from 'node:worker_threads'
import { openResults } from '../../files/open.ts'
import { lowerPriority } from '../../storage/low-priority.ts'
import { createBackup, stagingFolder } from '../create.ts'
import { BackupBroken, BackupRefused } from '../errors.ts'
import { verifyBackup } from '../verify.ts'
import type { Produced } from './schedule.ts'
import type { BackupThreadData, BackupVerdict, FromBackupThread } from './thread.ts'

type Make = Extract<BackupThreadData, { make: unknown }>['make']
type Verify = Extract<BackupThreadData, { verify: unknown }>['verify']

const progressMs = 1_000
const stopping = new AbortController()
const post = (message: FromBackupThread) => parentPort?.postMessage(message)
parentPort?.on('message', () => stopping.abort())
lowerPriority()

async function make({ name, backupsUrl, ...order }: Make): Promise<Produced> {
  const writer = await (await openResults(backupsUrl)).create(name)
  let reportedMs = Number.NEGATIVE_INFINITY
  const created = await createBackup(
    {
      ...{ ...order, withKeys: true, now: Date.now, random: (size) => randomBytes(size), signal: stopping.signal },
      onProgress: (progress) => {
        if (performance.now() - reportedMs < progressMs) return
        reportedMs = performance.now()
        post({ progress })
      },
    },
    writer,
  )
  const { sizeBytes, sha256, takenAt, isEncrypted, missingResults, damagedResults } = created
  const counts = { missingResults: missingResults.length, damagedResults: damagedResults.length }
  return { sizeBytes, sha256, takenAt, isEncrypted, ...counts }
}

async function verify({ name, sizeBytes, backupsUrl, passphrase, place }: Verify): Promise<BackupVerdict> {
  const store = await openResults(backupsUrl)
  const opening = {
    file: { sizeBytes, open: (signal: AbortSignal) => store.open(name, undefined, signal) },
    passphrase: async () => {
      if (passphrase !== null) return passphrase
      throw new BackupRefused('The backup is encrypted: set PLINTH_BACKUP_PASSPHRASE or PLINTH_BACKUP_PASSPHRASE_FILE')
    },
    ...{ signal: stopping.signal, onProgress: () => {} },
  }
  try {
    await verifyBackup(opening, () => stagingFolder(place.dataDir, Date.now()))
    return { error: null }
  } catch (error) {
    if (!(error instanceof BackupBroken)) throw error
    return { error: error.message }
  }
}

const data = workerData as BackupThreadData
try {
  post({ result: await ('make' in data ? make(data.make) : verify(data.verify)) })
} catch (error) {
  post({ error })
}
parentPort?.unref()
