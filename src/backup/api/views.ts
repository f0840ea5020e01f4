import { iso } from '../../storage/ids.ts'
import type { BackupRun } from '../schedule/runs.ts'

const idForm = /^bkp_(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z$/

/** Returns the id of the run for a scheduled time, such as `bkp_20261123T030000000Z`. */
export const backupId = (scheduledFor: string): string => `bkp_${scheduledFor.replaceAll(/[-:.]/g, '')}`

/** Returns the scheduled time in a backup id; undefined if the text is not a valid id. */
export const scheduledTimeOf = (id: string): string | undefined =>
  idForm.test(id) ? id.replace(idForm, '$1-$2-$3T$4:$5:$6.$7Z') : undefined

/** Whether this node can read the file of a completed backup; `unknown` if the bucket does not respond. */
export type Availability = 'here' | 'elsewhere' | 'removed' | 'unknown'

/** What this node needs in order to locate backup files. */
export interface Seen {
  /** The names of the files in the node's folder or bucket; null if the bucket does not respond. */
  names: ReadonlySet<string> | null
  /** The URL of the folder or bucket. */
  location: string
  hostname: string
}

/** Returns where a backup's file is. Equal paths on different machines may be different folders. */
export function availabilityOf({ name, location, node }: BackupRun, seen: Seen): Availability {
  if (seen.names === null) return 'unknown'
  if (name !== null && seen.names.has(name)) return 'here'
  const isSamePlace = location === null || location === seen.location
  const isShared = seen.location.startsWith('s3:') || node.split(' ')[0] === seen.hostname
  return isSamePlace && isShared ? 'removed' : 'elsewhere'
}

/** Returns the representation of a backup, without members that have no value. */
export function backupView(run: BackupRun, seen: Seen, nowMs: number) {
  const { scheduledFor, requestedBy, startedAt, finishedAt, name, error, encrypted } = run
  const isPending = run.status === 'running' && run.attempts === 0
  const { location, sizeBytes, sha256, takenAt, missingResults, damagedResults } = run
  const status = isPending ? 'pending' : run.status
  return present({
    ...{ id: backupId(scheduledFor), kind: requestedBy === null ? 'scheduled' : 'requested', requestedBy, status },
    ...{ scheduledFor, finishedAt, error },
    ...(run.attempts > 0 && { startedAt, node: run.node }),
    ...(status === 'running' && { progress: progressOf(run) }),
    ...(status === 'completed' && { file: name, availability: availabilityOf(run, seen) }),
    ...{ location, sizeBytes, sha256, takenAt, missingResults, damagedResults },
    encrypted: encrypted === null ? null : encrypted === 1,
    verification: verificationOf(run, nowMs),
  })
}

function progressOf({ step, doneBytes, totalBytes }: BackupRun) {
  if (step === null || doneBytes === null) return null
  return { step, doneBytes, ...(totalBytes !== null && { totalBytes }) }
}

function verificationOf(run: BackupRun, nowMs: number) {
  const { verifyStatus: status, verifyNode, verifyStartedAt, verifyFinishedAt, verifyError, verifyLeaseUntil } = run
  if (status === null || verifyNode === null || verifyStartedAt === null) return null
  const isLost = status === 'running' && (verifyLeaseUntil ?? '') <= iso(nowMs)
  const error = isLost ? 'The process that checked it has ended' : verifyError
  return {
    ...{ status: isLost ? 'error' : status, node: verifyNode, startedAt: verifyStartedAt },
    ...(verifyFinishedAt !== null && { finishedAt: verifyFinishedAt }),
    ...(error !== null && { error }),
  }
}

/** Removes the members whose value is null. */
const present = <T extends object>(all: T) =>
  Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null)) as {
    [Name in keyof T]?: NonNullable<T[Name]>
  }
