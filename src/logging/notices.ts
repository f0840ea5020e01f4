import type { Config } from '../config/config.ts'
import { confidentialTexts } from '../config/describe.ts'
import { traceIdOf } from '../http/headers/trace-context.ts'
import type { FailedAttempt } from '../jobs/run.ts'
import type { Rotated } from '../oauth/keys/rotation.ts'
import { type Lease, payloadTrace } from '../queue/queue.ts'
import type { CounterNotice } from '../rate-limits/open.ts'
import type { LoadedKeys } from '../storage/data-keys/open.ts'
import type { Migrated } from '../storage/migrate.ts'
import type { Swept } from '../storage/sweep.ts'
import type { Disabled } from '../webhooks/dispatch/endpoint-health.ts'
import { failureLog } from '../webhooks/dispatch/failure-log.ts'
import type { Log } from './entries.ts'
import { type Logs, type LogsOptions, openLogs } from './logs.ts'
import { redactor } from './redact.ts'

/** Opens the logs at the configured level. Logged errors do not contain the secrets in the settings and environment. */
export const openServiceLogs = (config: Config, options: Omit<LogsOptions, 'secrets'>): Logs =>
  openLogs(config.service.logLevel, { ...options, secrets: secretsIn(config, options.env) })

/** Returns the secrets that must not be logged: those in the settings, and those in the standard `AWS_…` variables. */
const secretsIn = (config: Config, { AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN }: NodeJS.ProcessEnv): string[] =>
  [...confidentialTexts(config), AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN].filter((text) => text !== undefined)

/** Returns a function that masks credentials in the text of an error, such as the error that a job stores. */
export function errorRedactor(config: Config, env: LogsOptions['env']): (text: string) => string {
  const redact = redactor(secretsIn(config, env))
  return (text) => (JSON.parse(redact(JSON.stringify({ err: text }))) as { err: string }).err
}

/** Returns a callback that logs failed attempts of the definition's jobs. */
export const logJobs = (log: Log) => ({
  onFailed: (err: unknown, { retryAt, ...attempt }: FailedAttempt) =>
    retryAt === null
      ? log.error({ ...attempt, err }, 'job failed')
      : log.warn({ ...attempt, retryAt, err }, 'job attempt failed'),
})

/**
 * Returns callbacks that log migrations, created and changed keys, damage to the database, and errors in its background
 * work.
 */
export const logStores = (log: Log) => ({
  onMigrated: (migration: Migrated) => log.info(migration, 'migration applied'),
  onKeyCreated: (file: string) => log.info({ file }, 'master key created'),
  onKeysChanged: (keys: LoadedKeys) => log.info(keys, 'data keys changed'),
  onMasterKeyReplaced: () => log.warn({}, 'master key replaced'),
  onError: (err: unknown) => log.error({ what: 'database', err }, 'background work failed'),
  onDamage: (err: unknown, file: string) => log.error({ file, err }, 'database damaged'),
})

const isMigration = /^\d{4}-/

/** Returns only the SQL statements from a list of changes, which also contains the names of migrations. */
export const statementsIn = (changes: readonly string[]): string[] => changes.filter((line) => !isMigration.test(line))

/**
 * Returns callbacks that log authorization errors, new and retired signing keys, and built-in clients whose ids are
 * already taken.
 */
export const logAuthorization = (log: Log) => ({
  report: (err: unknown) => log.error({ what: 'authorization', err }, 'background work failed'),
  keyNotices: {
    onCreated: (kid: string) => log.info({ kid }, 'signing key created'),
    onRotated: ({ published, retired }: Rotated) =>
      log.info({ published: published?.kid, activeFrom: published?.activeFrom, retired }, 'signing keys rotated'),
  },
  onClientIdTaken: (clientId: string) => log.warn({ clientId }, 'client id taken'),
})

/** Returns a callback that logs when audit entries could not be written; they are retried. */
export const logAudit = (log: Log) => ({
  onError: (err: unknown) => log.error({ err }, 'audit log delayed'),
})

/**
 * Returns callbacks that log failed jobs, reports and other background work, and how many rows the sweeps removed.
 */
export const logWork = (log: Log) => ({
  onError: (err: unknown, what: string) => log.error({ what, err }, 'background work failed'),
  onJobFailed: (err: unknown, queue?: string, job?: Pick<Lease, 'id' | 'attempt' | 'payload'>) => {
    const trace = job && payloadTrace(job)
    const about = { jobId: job?.id, attempt: job?.attempt, traceId: trace ? traceIdOf(trace) : undefined }
    log.error({ queue, ...about, err }, 'job failed')
  },
  onReportFailed: (err: unknown, taskId: string) => log.error({ taskId, err }, 'report failed'),
  onSwept: (swept: Swept) => log.info(swept, 'expired rows removed'),
})

/** Returns callbacks that log failed calls, disabled webhooks and dropped deliveries. */
export const logWebhooks = (log: Log, { now, maxWaiting }: { now: () => number; maxWaiting: number }) => ({
  onRecorded: failureLog({ now, warn: (line) => log.warn(line, 'webhook call failed') }),
  onDisabled: (webhook: Disabled) => log.warn(webhook, 'webhook disabled'),
  onDropped: (owner: string, dropped: number) => log.warn({ owner, dropped, maxWaiting }, 'webhook deliveries dropped'),
})

/**
 * Returns a callback that logs outages of the rate-limit store, their end, and failures to save quotas. Outages and
 * failures are logged as warnings, not errors.
 */
export const logCounters = (log: Log) => (notice: CounterNotice) => {
  if (notice.what === 'unsaved') return log.warn({ err: notice.error }, 'quotas not saved')
  const { store } = notice
  if (notice.what === 'up') log.info({ store }, 'rate-limit store available again')
  else log.warn({ store, err: notice.error }, 'rate-limit store unavailable')
}
