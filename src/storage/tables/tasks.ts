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
   * Set if access rules apply to the report: the scopes of its request. Only the requester may then see the report.
   */
  scopes: ColumnType<string | null, string | null | undefined, never>
  /** Position among the waiting tasks of all clients (fair queueing). */
  turn: Generated<number>
  startedAt: string | null
  completedAt: string | null
  expiresAt: string | null
}

/** A job of a definition: waiting, running, or finished and not yet deleted. */
export interface DeclaredJobsTable {
  id: string
  /** The name of the job or of the schedule. */
  name: string
  /** The input as JSON text. */
  input: string
  key: Late<string>
  /**
   * Equal to `key` while the job waits, unless another waiting job with this name already has the key. Unique per name.
   */
  waitingKey: Late<string>
  status: 'waiting' | 'running' | 'completed' | 'failed' | 'cancelled'
  /** When a waiting job may start. */
  dueAt: string
  /** 1 if a waiting job is in the queue; 0 until it is due. */
  queued: number
  /** How many times the job was added to the queue. Only its latest queue entry counts. */
  turn: Generated<number>
  /** How many times the job was started. Only the latest attempt may change the row. */
  attempts: Generated<number>
  /** Failed attempts since the job was added or last retried on request. */
  failures: Generated<number>
  /** Attempts interrupted because their process exited, since the job was added or last retried on request. */
  interruptions: Generated<number>
  /** The error of the last failed attempt. */
  error: Late<string>
  /** The scheduled time for which the job was added; null if no schedule added it. */
  scheduledFor: Late<string>
  trace: Late<string>
  createdAt: string
  startedAt: Late<string>
  endedAt: Late<string>
}

/** The state of a schedule. */
export interface JobSchedulesTable {
  name: string
  /** The cron expression and the time zone for which `nextAt` was computed. */
  timing: string
  nextAt: string
  /** The scheduled time for which the last job was added. */
  lastAt: Late<string>
  lastJobId: Late<string>
}

/** A backup, either scheduled or requested. */
export interface BackupsTable {
  /**
   * The time for which the backup was scheduled, or at which it was requested. The node that first inserts the row of a
   * scheduled time makes the backup.
   */
  scheduledFor: string
  status: 'running' | 'completed' | 'failed'
  /** The node that made the last attempt or, before the first attempt, the node that received the request. */
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
  /** The SHA-256 of the file, in base64. */
  sha256: Late<string>
  /** 1 if the file is encrypted. */
  encrypted: Late<number>
  missingResults: Late<number>
  damagedResults: Late<number>
  /** The last verification of the file. */
  verifyStatus: Late<'running' | 'passed' | 'failed' | 'error'>
  verifyNode: Late<string>
  verifyStartedAt: Late<string>
  /** If a verification has not finished by this time, its process is assumed to have ended. */
  verifyLeaseUntil: Late<string>
  verifyFinishedAt: Late<string>
  verifyError: Late<string>
}

/** A column that is null until its value is known. */
type Late<T> = ColumnType<T | null, T | null | undefined, T | null>

/**
 * Number of calls to deprecated versions by client, and the time of the last call; `clientId` is empty if anonymous.
 */
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

/**
 * Counts of a webhook's delivery attempts that were recorded in one clock hour, without test deliveries. The columns of
 * the latency classes (`attempt-log.ts`) are not declared here.
 */
export interface WebhookStatisticsTable {
  /** The start of the hour. */
  hour: string
  webhookId: string
  succeeded: number
  failed: number
}

/** The stored response to a request with an Idempotency-Key, replayed if the request is repeated. */
export interface AnswersTable {
  /** Keyed digest of client, subject, method, path and key. */
  id: string
  /** Keyed digest of the request. */
  digest: string
  /** Empty only inside the transaction that fills it. */
  sealed: string
  createdAt: string
}
