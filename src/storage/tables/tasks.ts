import type { ColumnType, Generated } from 'kysely'
import type { Owned, Revisioned } from '../rows/revision.ts'

export interface JobsTable {
  id: Generated<number>
  queue: string
  payload: string
  runAt: string
  leaseUntil: string | null
  /** Fencing token: incremented by each claim; only the newest holder may finish the job. */
  fence: Generated<number>
  attempts: Generated<number>
  /** The owner, for fair queueing between owners; jobs with a lower `turn` run first. */
  groupId: string | null
  turn: Generated<number>
}

export interface TasksTable extends Owned, Revisioned {
  id: string
  reportType: string
  format: string
  parameters: string | null
  webhookUrl: string | null
  status: 'pending' | 'in_progress' | 'completed' | 'failed'
  progress: number
  attempts: number
  rowCount: number | null
  sizeBytes: number | null
  sha256: string | null
  resultKey: string | null
  errorCode: string | null
  errorMessage: string | null
  versionPrefix: string
  /** The task that this task retries. */
  retryOf: string | null
  /** 1 if the requester had the `admin` scope, so that the report may include other owners' data. */
  asAdmin: Generated<number>
  /**
   * The scopes of the request if access rules apply to the report; only the requester may see such a task. Null for all other
   * reports.
   */
  scopes: ColumnType<string | null, string | null | undefined, never>
  /** Position among the waiting tasks of all clients (fair queueing). */
  turn: Generated<number>
  startedAt: string | null
  completedAt: string | null
  expiresAt: string | null
}

/** A backup: a run of the schedule, or one that was requested. */
export interface BackupsTable {
  /**
   * The time for which the backup was scheduled, or at which it was requested. The node that first inserts the row of a
   * scheduled time makes the backup.
   */
  scheduledFor: string
  status: 'running' | 'completed' | 'failed'
  /** The node that made the last attempt; before the first one, the node that received the request. */
  node: string
  /** Fencing token: incremented by each claim. 0 until a node begins to make a requested backup. */
  attempts: number
  startedAt: string
  /** If the run has not finished by this time, another node may claim it. */
  leaseUntil: string
  finishedAt: string | null
  /** The name of the backup file in the folder or bucket. */
  name: string | null
  sizeBytes: number | null
  error: string | null
  /** The client and the subject that requested the backup; null for a scheduled one. */
  requestedBy: Late<string>
  /** The progress of a run; `totalBytes` is null while the total is not known. */
  step: Late<'database' | 'archive'>
  doneBytes: Late<number>
  totalBytes: Late<number>
  /** The URL of the folder or bucket. */
  location: Late<string>
  takenAt: Late<string>
  /** Of the file, in base64. */
  sha256: Late<string>
  /** 1 if the file is encrypted. */
  encrypted: Late<number>
  missingResults: Late<number>
  damagedResults: Late<number>
  /** The last verification of the file. */
  verifyStatus: Late<'running' | 'passed' | 'failed' | 'error'>
  verifyNode: Late<string>
  verifyStartedAt: Late<string>
  /** If a verification has not finished by this time, its process has ended. */
  verifyLeaseUntil: Late<string>
  verifyFinishedAt: Late<string>
  verifyError: Late<string>
}

/** A column that is null until its value is known. */
type Late<T> = ColumnType<T | null, T | null | undefined, T | null>

/** Number of calls to deprecated versions by client, and the time of the last call; `clientId` is empty if anonymous. */
export interface VersionCallsTable {
  version: string
  clientId: string
  calls: number
  lastCallAt: string
}

/** Number of requests per client and day (UTC). */
export interface RequestCountsTable {
  day: string
  clientId: string
  requests: number
}

/** The attempts of a webhook's deliveries that ended within an hour, except tests. `statistics.ts` has the other columns. */
export interface WebhookStatisticsTable {
  /** The start of the hour. */
  hour: string
  webhookId: string
  succeeded: number
  failed: number
}

/** The stored response to a request with an Idempotency-Key, replayed if the request is repeated. */
export interface AnswersTable {
  /** Keyed digest of client, target and key. */
  id: string
  /** Keyed digest of the request. */
  digest: string
  /** Empty only inside the transaction that fills it. */
  sealed: string
  createdAt: string
}
