import type { Generated } from 'kysely'
import type { Owned, Revisioned } from '../rows/revision.ts'

export interface JobsTable {
  id: Generated<number>
  queue: string
  payload: string
  runAt: string
  leaseUntil: string | null
  /** Fencing token: grows with each claim; only its newest holder may finish the job. */
  fence: Generated<number>
  attempts: Generated<number>
  /** Whose job it is, where jobs of one owner shall not hold up those of others; low turns go first. */
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
  /** The task that this one repeats. */
  retryOf: string | null
  /** 1 when whoever asked holds scope `admin`, and the report may show what others own. */
  asAdmin: Generated<number>
  /** Where it stands among the waiting tasks of all clients. */
  turn: Generated<number>
  startedAt: string | null
  completedAt: string | null
  expiresAt: string | null
}

/** How often each client has called a deprecated version, and when last; the client is empty for calls without one. */
export interface VersionCallsTable {
  version: string
  clientId: string
  calls: number
  lastCallAt: string
}

/** How many requests each client sent on each day (UTC). */
export interface RequestCountsTable {
  day: string
  clientId: string
  requests: number
}

/** What a request with an Idempotency-Key was answered, for its repetition. */
export interface AnswersTable {
  /** Keyed digest of who asked, where, and with which key. */
  id: string
  /** Keyed digest of what was asked. */
  digest: string
  /** Empty only inside the transaction that fills it. */
  sealed: string
  createdAt: string
}
