import { sql } from 'kysely'
import type { Registry } from 'prom-client'
import { type Backlog, type MeasuredQueue, maxCounted } from '../queue/queue.ts'
import type { Database } from '../storage/database.ts'
import { type CachedReadOptions, cachedRead } from './cached-read.ts'
import { registerRead, type Sample } from './samples.ts'

export interface StoredStateOptions extends Omit<CachedReadOptions<unknown>, 'read' | 'freshMs' | 'limitMs'> {
  db: Database
  queue: Pick<MeasuredQueue, 'backlog'>
  /** Whether backups are scheduled; if not, the backup metrics have no samples. */
  hasBackups: boolean
  /** Returns the current time in ms since the epoch. */
  now: () => number
}

/**
 * The number of rows in each state (at most `maxCounted` each), when the earliest delivery is due, the outcome of the
 * last backups, and the queues' backlogs.
 */
export interface StoredState {
  counts: Record<CountName, number>
  deliveriesDueAt: string | null
  backups: { completedAt: string | null; lastStatus: string | null }
  backlogs: Backlog[]
}

const freshMs = 5_000
const limitMs = 2_000

/**
 * What to count: the rows of a table that meet a condition, found through an index. Conditions contain literals instead
 * of parameters, so that partial indexes are used.
 */
const counted = {
  pendingTasks: `tasks where status = 'pending'`,
  runningTasks: `tasks where status = 'in_progress'`,
  waitingJobs: `declared_jobs where status = 'waiting'`,
  runningJobs: `declared_jobs where status = 'running'`,
  failedJobs: `declared_jobs where status = 'failed'`,
  waitingDeliveries: `deliveries where status = 'pending'`,
  activeWebhooks: `webhooks where status = 'active' and failing_since is null`,
  failingWebhooks: `webhooks where status = 'active' and failing_since is not null`,
  pausedWebhooks: `webhooks where status = 'paused'`,
  disabledWebhooks: `webhooks where status = 'disabled'`,
} as const
type CountName = keyof typeof counted

/** Returns SQL that counts at most `maxCounted` index entries, so that its cost does not grow with the data. */
export const boundedCount = (name: CountName) =>
  sql<number>`(select count(*) from (select 1 from ${sql.raw(counted[name])} limit ${sql.lit(maxCounted)}) as counted)`

/**
 * SQL for the earliest due time of a delivery: one query per rank, because the index of due times begins with the rank.
 */
export const earliestDues = [0, 1, 2].map(
  (rank) =>
    sql<string | null>`(
      select min(due_at) from delivery_owners where rank = ${sql.lit(rank)} and due_at is not null)`,
)

/**
 * SQL for the end of the last completed backup, and for the status of the last backup that ended. The table has few
 * rows.
 */
const backups = [
  sql`(select max(finished_at) from backups where status = 'completed')`,
  sql`(select status from backups where status <> 'running' order by scheduled_for desc limit 1)`,
]

/** Reads the state over the reserved connections, with all counts in one statement. */
async function readState(db: Database, queue: StoredStateOptions['queue']): Promise<StoredState> {
  const names = Object.keys(counted) as CountName[]
  const columns = [...names.map(boundedCount), ...earliestDues, ...backups].map(
    (column, at) => sql`${column} as ${sql.ref(`value_${at}`)}`,
  )
  const { rows } = await sql<Record<string, number | string | null>>`select ${sql.join(columns)}`.execute(
    db.reserved.read.withoutPlugins(),
  )
  const values = Object.values(rows[0] ?? {})
  const texts = values.slice(names.length).map((value) => (typeof value === 'string' ? value : null))
  const dues = texts.slice(0, earliestDues.length).filter((at) => at !== null)
  const [completedAt = null, lastStatus = null] = texts.slice(earliestDues.length)
  return {
    counts: Object.fromEntries(names.map((name, at) => [name, Number(values[at])])) as StoredState['counts'],
    deliveriesDueAt: dues.toSorted()[0] ?? null,
    backups: { completedAt, lastStatus },
    backlogs: await queue.backlog(),
  }
}

/** Returns the samples of a metric; `nowMs` is in epoch ms. */
type ReadSamples = (state: StoredState, nowMs: number) => Sample[]

const ageOf = (sinceMs: number | null, nowMs: number) => (sinceMs === null ? 0 : Math.max(0, nowMs - sinceMs) / 1_000)

const byKind =
  (read: (backlog: Backlog, nowMs: number) => number): ReadSamples =>
  ({ backlogs }, nowMs) =>
    backlogs.map((backlog) => ({ labels: { kind: backlog.queue }, value: read(backlog, nowMs) }))

const byState =
  (names: Record<string, CountName>): ReadSamples =>
  ({ counts }) =>
    Object.entries(names).map(([state, name]) => ({ labels: { state }, value: counts[name] }))

const webhookStates: Record<string, CountName> = {
  active: 'activeWebhooks',
  failing: 'failingWebhooks',
  paused: 'pausedWebhooks',
  disabled: 'disabledWebhooks',
}
const most = `at most ${maxCounted.toLocaleString('en')}`

const gauges: readonly [name: string, help: string, read: ReadSamples][] = [
  [
    'plinth_queue_jobs_waiting',
    `Jobs that no worker has claimed, by kind, ${most} of each`,
    byKind(({ waiting }) => waiting),
  ],
  [
    'plinth_queue_oldest_job_age_seconds',
    'Time for which the oldest waiting job has been due, by kind; 0 if none is due',
    byKind(({ dueSinceMs }, nowMs) => ageOf(dueSinceMs, nowMs)),
  ],
  [
    'plinth_tasks',
    `Report tasks that have not ended, by state, ${most} of each`,
    byState({ pending: 'pendingTasks', in_progress: 'runningTasks' }),
  ],
  [
    'plinth_jobs',
    `Jobs of the definition by state, ${most} of each; failed ones as long as they are kept`,
    byState({ waiting: 'waitingJobs', running: 'runningJobs', failed: 'failedJobs' }),
  ],
  [
    'plinth_webhooks',
    `Webhooks by state, ${most} of each; failing means active with failed calls`,
    byState(webhookStates),
  ],
  [
    'plinth_webhook_deliveries_waiting',
    `Deliveries that have not ended, ${most}`,
    ({ counts }) => [{ labels: {}, value: counts.waitingDeliveries }],
  ],
  [
    'plinth_webhook_oldest_due_age_seconds',
    'Time for which the endpoint that waits longest has had a due delivery; 0 if none is due',
    ({ deliveriesDueAt: due }, nowMs) => [{ labels: {}, value: ageOf(due === null ? null : Date.parse(due), nowMs) }],
  ],
]

/** Returns the gauges of backups; they have no samples if no backups are scheduled. */
const backupGauges = (hasBackups: boolean): typeof gauges => [
  [
    'plinth_backup_age_seconds',
    'Time since the last complete scheduled backup was finished',
    ({ backups: { completedAt } }, nowMs) =>
      hasBackups && completedAt !== null ? [{ labels: {}, value: ageOf(Date.parse(completedAt), nowMs) }] : [],
  ],
  [
    'plinth_backup_last_succeeded',
    '1 if the last scheduled backup is complete, 0 if it failed',
    ({ backups: { lastStatus } }) =>
      hasBackups && lastStatus !== null ? [{ labels: {}, value: lastStatus === 'completed' ? 1 : 0 }] : [],
  ],
]

/**
 * Registers the metrics that are read from the database. Returns a function to call before each scrape. It resolves
 * with the state and never rejects. If reading fails or takes more than two seconds, the state is null, these metrics
 * have no samples, and `plinth_database_up` is 0.
 */
export function storedState(registry: Registry, options: StoredStateOptions): () => Promise<StoredState | null> {
  const { db, queue, now, hasBackups } = options
  const refresh = cachedRead({ ...options, freshMs, limitMs, read: () => readState(db, queue) })
  let state: StoredState | null = null
  registerRead(registry, {
    name: 'plinth_database_up',
    help: '1 if the database responded to the queries for this scrape, or in the five seconds before it',
    type: 'gauge',
    read: () => [{ labels: {}, value: state === null ? 0 : 1 }],
  })
  for (const [name, help, read] of [...gauges, ...backupGauges(hasBackups)]) {
    registerRead(registry, { name, help, type: 'gauge', read: () => (state === null ? [] : read(state, now())) })
  }
  return async () => {
    state = await refresh()
    return state
  }
}
