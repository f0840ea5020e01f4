import { ageText, count } from '../backup/describe.ts'
import { firstRun, lastCompletedRun, lastRun } from '../backup/schedule/runs.ts'
import { boundedCount, earliestDues } from '../metrics/stored-state.ts'
import { maxCounted, type QueueName, queues } from '../queue/queue.ts'
import { hasQueues, waitingJobs } from '../queue/waiting-jobs.ts'
import { iso } from '../storage/ids.ts'
import { type Check, type DatabaseContext, fail, pass, warn } from './check.ts'

const warnDueMs = 5 * 60_000
const failDueMs = 3_600_000

const workerCure = 'Check that a process with the role worker runs, and its log; or add workers'

const atMost = (n: number, one: string, many?: string) =>
  n >= maxCounted ? `${maxCounted.toLocaleString('en')} or more ${many ?? `${one}s`}` : count(n, one, many)

/** Returns the finding for due work; `waitedMs` is how long the oldest item has been due. */
function byAge(detail: string, waitedMs: number) {
  if (waitedMs < warnDueMs) return pass(detail)
  return (waitedMs >= failDueMs ? fail : warn)(detail, workerCure)
}

/** Checks of background work and of backups. */
export const workChecks: readonly Check<DatabaseContext>[] = [
  {
    id: 'queue.jobs',
    area: 'queue',
    title: 'Waiting jobs',
    rule: 'Warns if a job has been due for 5 minutes, fails after an hour',
    run: async ({ db, databaseNow }) => {
      if (!(await hasQueues(db))) return pass('The first start creates the queue')
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
          boundedCount('activeWebhooks').as('active'),
          boundedCount('failingWebhooks').as('failing'),
          boundedCount('disabledWebhooks').as('disabled'),
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
    rule: 'Warns if an endpoint has waited 5 minutes for a due delivery, fails after an hour',
    run: async ({ db: { read }, databaseNow }) => {
      const { count: pending, ...dues } = await read
        .selectNoFrom([
          boundedCount('waitingDeliveries').as('count'),
          ...earliestDues.map((earliest, rank) => earliest.as(`due${rank}`)),
        ])
        .executeTakeFirstOrThrow()
      const [due] = Object.values(dues)
        .filter((at) => at !== null)
        .toSorted()
      const waitedMs = due === undefined ? 0 : Math.max(0, (await databaseNow()) - Date.parse(due))
      const text = waitedMs > 0 ? `, due for ${ageText(waitedMs)}` : ''
      return byAge(`${atMost(Number(pending), 'delivery', 'deliveries')}${text}`, waitedMs)
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
      const last = await lastRun(db)
      if (last === undefined) return pass(`${cron}; none was due since the first start with this setting`)
      const [first, completed] = [await firstRun(db), await lastCompletedRun(db)]
      const cure = 'See `backup failed` in the log, and make one now with `plinth backup FILE`'
      const since = completed ? `the last complete one is from ${completed.scheduledFor}` : 'none is complete'
      const nowMs = await databaseNow()
      const beforeLast = iso(latestDue(cron, latestDue(cron, nowMs) - 1))
      const areTwoMissing = completed ? completed.scheduledFor < beforeLast : first.scheduledFor <= beforeLast
      if (areTwoMissing) return fail(`${last.error ?? 'The backup was not made'}; ${since}`, cure)
      if (last.status === 'failed') return warn(`${last.error}; ${since}`, cure)
      if (completed === undefined) {
        return pass(`${cron}; the first one has been running for ${ageText(nowMs - Date.parse(last.startedAt))}`)
      }
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
