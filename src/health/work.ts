import { sql } from 'kysely'
import { ageText, count } from '../backup/describe.ts'
import { lastCompletedRun, lastRun } from '../backup/schedule/runs.ts'
import { type QueueName, queues } from '../queue/queue.ts'
import { waitingJobs } from '../queue/waiting-jobs.ts'
import { type Check, type DatabaseContext, fail, pass, warn } from './check.ts'

const warnDueMs = 5 * 60_000
const failDueMs = 3_600_000
/** Rows are counted up to this number, so that the cost does not grow with the data. */
const maxRows = 10_000
const maxWaitingShare = 0.8

const workerCure = 'Check that a process with the role worker runs, and its log; or add workers'

async function hasQueue({ db: { read, engine } }: DatabaseContext): Promise<boolean> {
  if (engine.name === 'sqlite') return true
  const { rows } = await sql<{ found: boolean }>`select to_regclass('pgboss.job') is not null as found`.execute(read)
  return rows[0]?.found === true
}

const atMost = (n: number, one: string, many?: string) =>
  n >= maxRows ? `${maxRows.toLocaleString('en')} or more ${many ?? `${one}s`}` : count(n, one, many)

/** Counts rows, at most `maxRows`; `rows` is a table with a condition that an index covers. */
const counted = (rows: string) =>
  sql<number>`(select count(*) from (select 1 from ${sql.raw(`${rows} limit ${maxRows}`)}) as counted)`

/** The ranks of delivery owners, which the index of due times begins with. */
const ranks = [0, 1, 2]
const earliestDue = (rank: number) =>
  sql<
    string | null
  >`(select min(due_at) from delivery_owners where rank = ${sql.raw(String(rank))} and due_at is not null)`

/** Judges how long the oldest due work has waited. */
function byAge(detail: string, waitedMs: number) {
  if (waitedMs < warnDueMs) return pass(detail)
  return (waitedMs >= failDueMs ? fail : warn)(detail, workerCure)
}

/** The checks of work in the background, and of backups. */
export const workChecks: readonly Check<DatabaseContext>[] = [
  {
    id: 'queue.jobs',
    area: 'queue',
    title: 'Waiting jobs',
    rule: 'Warns if a job has been due for 5 minutes, fails after an hour',
    run: async (context) => {
      const { db, databaseNow } = context
      if (!(await hasQueue(context))) return pass('The first start creates the queue')
      const nowMs = await databaseNow()
      let oldestMs = 0
      const texts: string[] = []
      for (const queue of Object.keys(queues) as QueueName[]) {
        const { waiting, dueSinceMs } = await waitingJobs(db, queue, nowMs)
        if (waiting === 0) continue
        const dueMs = dueSinceMs === null ? 0 : Math.max(0, nowMs - dueSinceMs)
        oldestMs = Math.max(oldestMs, dueMs)
        texts.push(`${queue}: ${atMost(waiting, 'job')}${dueSinceMs === null ? '' : `, due for ${ageText(dueMs)}`}`)
      }
      return byAge(texts.length === 0 ? 'None' : texts.join('; '), oldestMs)
    },
  },
  {
    id: 'webhooks.endpoints',
    area: 'webhooks',
    title: 'Endpoints',
    rule: 'Warns if webhooks fail, or were disabled because their endpoint failed',
    run: async ({ db: { read } }) => {
      const found = await read
        .selectNoFrom([
          counted(`webhooks where status = 'active' and failing_since is null`).as('active'),
          counted(`webhooks where status = 'active' and failing_since is not null`).as('failing'),
          counted(`webhooks where status = 'disabled'`).as('disabled'),
        ])
        .executeTakeFirstOrThrow()
      const [active, failing, disabled] = [found.active, found.failing, found.disabled].map(Number)
      const detail = `${active} active, ${failing} failing, ${disabled} disabled`
      if (failing === 0 && disabled === 0) return pass(detail)
      return warn(
        detail,
        'Ask their owners to correct the endpoint and enable the webhook again; GET /api/webhooks shows why it failed',
      )
    },
  },
  {
    id: 'webhooks.deliveries',
    area: 'webhooks',
    title: 'Waiting deliveries',
    rule: 'Warns if an endpoint has waited 5 minutes for a due delivery, fails after an hour; warns above 80 % of `PLINTH_WEBHOOK_MAX_WAITING`',
    run: async ({ db: { read }, config, databaseNow }) => {
      const { count: pending, ...dues } = await read
        .selectNoFrom([
          counted(`deliveries where status = 'pending'`).as('count'),
          ...ranks.map((rank) => earliestDue(rank).as(`due${rank}`)),
        ])
        .executeTakeFirstOrThrow()
      const waiting = Number(pending)
      const [due] = Object.values(dues)
        .filter((at) => at !== null)
        .toSorted()
      const waitedMs = due === undefined ? 0 : Math.max(0, (await databaseNow()) - Date.parse(due))
      const text = waitedMs > 0 ? `, due for ${ageText(waitedMs)}` : ''
      const detail = `${atMost(waiting, 'delivery', 'deliveries')}${text}`
      const { maxWaiting } = config.webhooks
      if (waitedMs < warnDueMs && waiting > maxWaiting * maxWaitingShare) {
        return warn(`${detail}; an owner's oldest are dropped above ${maxWaiting}`, workerCure)
      }
      return byAge(detail, waitedMs)
    },
  },
  {
    id: 'backups.schedule',
    area: 'backups',
    title: 'Scheduled backups',
    rule: 'Warns in production if none are configured; warns if the last one failed, fails if the last two were not made',
    run: async ({ db, config, databaseNow }) => {
      const { schedule: cron } = config.backup
      if (cron === null) {
        if (!config.production) return pass('Not configured, in development')
        return warn(
          'Not configured',
          "Set PLINTH_BACKUP, such as PLINTH_BACKUP='0 3 * * *', or schedule `plinth backup`",
        )
      }
      // Loaded on demand, because few services need the cron parser.
      const { latestDue } = await import('../backup/schedule/schedule.ts')
      const [last, completed] = [await lastRun(db), await lastCompletedRun(db)]
      if (last === undefined) return pass(`${cron}; none was due since the first start with this setting`)
      const cure = 'See `backup failed` in the log, and make one now with `plinth backup FILE`'
      const since = completed ? `the last complete one is from ${completed.scheduledFor}` : 'none is complete'
      const nowMs = await databaseNow()
      const beforeLast = latestDue(cron, latestDue(cron, nowMs) - 1)
      if (completed === undefined || Date.parse(completed.scheduledFor) < beforeLast) {
        return fail(`${last.error ?? 'The backup was not made'}; ${since}`, cure)
      }
      if (last.status === 'failed') return warn(`${last.error}; ${since}`, cure)
      return pass(`${completed.name}, ${ageText(nowMs - Date.parse(completed.finishedAt ?? completed.startedAt))} ago`)
    },
  },
  {
    id: 'backups.encryption',
    area: 'backups',
    title: 'Backup encryption',
    rule: 'Warns if scheduled backups are not encrypted',
    run: ({ config: { backup } }) => {
      if (backup.schedule === null) return null
      if (backup.passphrase !== null || backup.passphraseFile !== null) return pass('With a passphrase')
      return warn(
        'Backups contain the keys in plain form',
        'Set PLINTH_BACKUP_PASSPHRASE_FILE to a file with a random passphrase, and keep a copy elsewhere',
      )
    },
  },
]
