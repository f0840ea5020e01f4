import { extname } from 'node:path'
import { type FromThread, runThread } from '../../run-thread.ts'
import type { Encryption } from '../archive/age.ts'
import type { BackupProgress } from '../create.ts'
import type { BackupSource } from '../place.ts'
import type { Produced, ScheduleOptions } from './schedule.ts'

/** The options that all backups share. */
export interface BackupOrder {
  place: BackupSource
  version: string
  passphrase: string | null
  workFactor?: Encryption['workFactor']
  /** The URL of the folder or bucket. */
  backupsUrl: string
}

/** A backup to check, in the folder or bucket; `sizeBytes` is its expected size. */
export interface BackupVerification extends Pick<BackupOrder, 'place' | 'passphrase' | 'backupsUrl'> {
  name: string
  sizeBytes: number
}

/** The result of a check: `error` describes the damage to the file; null if there is none. */
export interface BackupVerdict {
  error: string | null
}

/** A thread's input. */
export type BackupThreadData = { make: BackupOrder & { name: string } } | { verify: BackupVerification }
/** A thread's messages. */
export type FromBackupThread = FromThread<Produced | BackupVerdict, BackupProgress>

const program = new URL(`./thread-main${extname(import.meta.url)}`, import.meta.url)

/** Makes each backup in a separate thread. */
export const backUpInThread =
  (order: BackupOrder): ScheduleOptions['produce'] =>
  (name, signal, onProgress) =>
    runThread({ program, data: { make: { ...order, name } } satisfies BackupThreadData, signal, onProgress })

/** Checks a backup in a separate thread. Rejects if the check could not be run. */
export const verifyInThread = (verify: BackupVerification, signal: AbortSignal): Promise<BackupVerdict> =>
  runThread({ program, data: { verify } satisfies BackupThreadData, signal })
