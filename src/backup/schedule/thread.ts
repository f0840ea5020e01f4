import { extname } from 'node:path'
import { type FromThread, runThread } from '../../run-thread.ts'
import type { Encryption } from '../archive/age.ts'
import type { Progress } from '../create.ts'
import type { Place } from '../place.ts'
import type { Produced, ScheduleOptions } from './schedule.ts'

/** The options that all backups share. */
export interface BackupOrder {
  place: Place
  version: string
  passphrase: string | null
  workFactor?: Encryption['workFactor']
  /** The URL of the folder or bucket. */
  backupsUrl: string
}

/** Checks a backup in the folder or bucket; `sizeBytes` is its expected size. */
export interface Verification extends Pick<BackupOrder, 'place' | 'passphrase' | 'backupsUrl'> {
  name: string
  sizeBytes: number
}

/** The result of a check: `error` says what is wrong with the file, and is null if nothing is. */
export interface Verdict {
  error: string | null
}

/** A thread's input. */
export type ThreadData = { make: BackupOrder & { name: string } } | { verify: Verification }
/** A thread's messages. */
export type FromBackupThread = FromThread<Produced | Verdict, Progress>

const program = new URL(`./thread-main${extname(import.meta.url)}`, import.meta.url)

/** Makes each backup in a separate thread. */
export const inThread =
  (order: BackupOrder): ScheduleOptions['produce'] =>
  (name, signal, onProgress) =>
    runThread({ program, data: { make: { ...order, name } } satisfies ThreadData, signal, onProgress })

/** Checks a backup in a separate thread. Rejects if the check could not be made. */
export const verifyInThread = (verify: Verification, signal: AbortSignal): Promise<Verdict> =>
  runThread({ program, data: { verify } satisfies ThreadData, signal })
