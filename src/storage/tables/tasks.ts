import type { Generated } from 'kysely'
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
  /** The owner, for fair queueing between owners; jobs with a lower `turn` go first. */
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
  /** The task of which this one is a retry. */
  retryOf: string | null
  /** 1 if the requester had scope `admin`, so that the report may include what others own. */
  asAdmin: Generated<number>
  /** Position among the waiting tasks of all clients (fair queueing). */
  turn: Generated<number>
  startedAt: string | null
  completedAt: string | null
  expiresAt: string | null
}

/** Calls of deprecated versions by client: their number and the last time. The client is empty for anonymous calls. */
export interface VersionCallsTable {
  version: string
  clientId: string
  calls: number
  lastCallAt: string
}

/** The number of requests per client and day (UTC). */
export interface RequestCountsTable {
  day: string
  clientId: string
  requests: number
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
