import assert from 'node:assert/strict'
import { after, before, describe, it, mock } from 'node:test'
import { sql } from 'kysely'
import { openMetrics, type ThreadCounts } from '../../src/metrics/metrics.ts'
import type { Backlog, MeasuredQueue } from '../../src/queue/queue.ts'
import type { Database } from '../../src/storage/database.ts'
import type { TableSize } from '../../src/storage/table-sizes.ts'
import { forEachEngine } from '../support/engines.ts'
import { scraped } from '../support/metrics.ts'
import { noteStatements, type Statement } from '../support/statements.ts'
import { drivenTimers, muchLater, until } from '../support/timers.ts'

/** Returns the metrics of a database, with a clock that the test advances. */
function watched(
  db: Database,
  queue: Pick<MeasuredQueue, 'backlog'> & Partial<MeasuredQueue>,
  later = muchLater,
  more: {
    hasBackups?: boolean
    now?: () => number
    tableSizes?: () => Promise<Pick<TableSize, 'table' | 'bytes'>[] | null>
    others?: () => Promise<ThreadCounts[]>
  } = {},
) {
  const errors: unknown[] = []
  const clock = { ms: 1_000_000 }
  const monotonic = () => clock.ms
  const { others, ...given } = more
  const metrics = openMetrics({ version: 'test', versions: [], monotonic, ofThread: null, ...(others && { others }) })
  const onError = (error: unknown) => void errors.push(error)
  const sources = { space: async () => null, tableSizes: async () => null, hasBackups: false, ...given }
  metrics.watch({ db, queue: { running: () => [], ...queue }, now: Date.now, monotonic, later, onError, ...sources })
  return { scrape: async () => scraped(await metrics.read()), metrics, clock, errors }
}

const idle: Backlog[] = [{ queue: 'report.generate', waiting: 7, dueSinceMs: null }]

forEachEngine((engine) => {
  describe('metrics read from the database', () => {
    let db: Database
    let statements: Map<string, Statement>
    before(async () => {
      statements = noteStatements(mock)
      db = await engine.database()
    })
    after(async () => {
      mock.restoreAll()
      await db.close()
    })

    it('are omitted if a query fails; all other metrics remain, and plinth_database_up is 0', async () => {
      const closed = await engine.database()
      await closed.close()
      const failing = watched(closed, { backlog: async () => idle })
      const { value, all } = await failing.scrape()
      assert.equal(value('plinth_database_up'), 0)
      assert.deepEqual(all('plinth_tasks'), [])
      assert.equal(value('plinth_build_info'), 1)
      assert.equal(failing.errors.length, 1)
    })

    it('are omitted after two seconds if the database does not respond; no second query starts meanwhile', async () => {
      const timers = drivenTimers()
      const { promise, resolve } = Promise.withResolvers<Backlog[]>()
      let calls = 0
      const backlog = () => {
        calls++
        return promise
      }
      const slow = watched(db, { backlog }, timers.later)
      for (let time = 0; time < 3; time++) {
        const answers = [slow.scrape(), slow.scrape()]
        await until(() => calls === 1)
        timers.pass(2_000)
        for (const { value } of await Promise.all(answers)) assert.equal(value('plinth_database_up'), 0)
        slow.clock.ms += 60_000
      }
      assert.equal(calls, 1)
      resolve(idle)
      await until(() => timers.pending().length === 0)
    })

    it('are queried at most once every five seconds, regardless of the number of scrapes', async () => {
      let calls = 0
      const backlog = async () => {
        calls++
        return idle
      }
      const cached = watched(db, { backlog })
      await Promise.all(Array.from({ length: 20 }, () => cached.scrape()))
      cached.clock.ms += 4_999
      assert.equal((await cached.scrape()).value('plinth_queue_jobs_waiting', { kind: 'report.generate' }), 7)
      assert.equal(calls, 1)
      cached.clock.ms += 1
      await cached.scrape()
      assert.equal(calls, 2)
    })

    it('show the age of the last successful scheduled backup, and whether the last finished one succeeded', async () => {
      const now = () => Date.parse('2026-03-03T04:00:00.000Z')
      const backlog = async () => idle
      const scrape = (hasBackups: boolean) => watched(db, { backlog }, muchLater, { hasBackups, now }).scrape()
      const found = async (hasBackups = true) => {
        const { value } = await scrape(hasBackups)
        return [value('plinth_backup_age_seconds'), value('plinth_backup_last_succeeded')]
      }
      const add = (day: string, status: 'completed' | 'failed' | 'running') =>
        db.write((tx) => {
          const [scheduledFor, at] = [`${day}T03:00:00.000Z`, `${day}T03:30:00.000Z`]
          const finishedAt = status === 'running' ? null : at
          const row = { node: 'n', attempts: 1, startedAt: at, leaseUntil: at, finishedAt }
          return tx
            .insertInto('backups')
            .values({ ...row, scheduledFor, status })
            .execute()
        })
      assert.deepEqual(await found(), [undefined, undefined])
      await add('2026-03-01', 'completed')
      assert.deepEqual(await found(), [48.5 * 3_600, 1])
      await add('2026-03-02', 'failed')
      await add('2026-03-03', 'running')
      assert.deepEqual(await found(), [48.5 * 3_600, 0])
      assert.deepEqual(await found(false), [undefined, undefined])
    })

    it('show the sizes of the 100 largest tables, and the sum of the others', async () => {
      const tableSizes = async () =>
        Array.from({ length: 103 }, (_, at) => ({ table: `table_${at}`, bytes: 1_000 - at }))
      const { all, value } = await watched(db, { backlog: async () => idle }, muchLater, { tableSizes }).scrape()
      assert.equal(all('plinth_database_table_bytes').length, 101)
      assert.equal(value('plinth_database_table_bytes', { table: 'table_99' }), 901)
      assert.equal(value('plinth_database_table_bytes', { table: '(others)' }), 900 + 899 + 898)
    })

    it('add up the running jobs and the connections of all threads, but not what the threads share', async () => {
      const queue = { backlog: async () => idle, running: () => [{ queue: 'report.generate', jobs: 2 } as const] }
      const other = watched(db, queue)
      await other.scrape()
      const { value, all } = await watched(db, queue, muchLater, {
        others: async () => [await other.metrics.counted()],
      }).scrape()
      assert.equal(value('plinth_queue_jobs_running', { kind: 'report.generate' }), 4)
      assert.equal(value('plinth_queue_jobs_waiting', { kind: 'report.generate' }), 7)
      assert.equal(value('plinth_database_up'), 1)
      const most = all('plinth_database_connections_max').map((one) => one.value)
      const own = db.measure().pools.map(({ max }) => 2 * max)
      assert.deepEqual(most, own)
    })

    it('count at most 10,000 rows per state, reading only covering indexes on SQLite', async () => {
      const { scrape } = watched(db, { backlog: async () => idle })
      await addPendingTasks(db, 10_001)
      const { value } = await scrape()
      assert.equal(value('plinth_database_up'), 1)
      assert.equal(value('plinth_tasks', { state: 'pending' }), 10_000)
      assert.equal(value('plinth_tasks', { state: 'in_progress' }), 0)
      assert.equal(value('plinth_webhooks', { state: 'active' }), 0)
      if (engine.name !== 'sqlite') return
      const text = [...statements.keys()].find((one) => one.includes('from tasks')) ?? ''
      const { rows } = await sql<{ detail: string }>`explain query plan ${sql.raw(text)}`.execute(db.read)
      const reads = rows.filter(({ detail }) => /tasks|deliveries|webhooks|delivery_owners/.test(detail))
      assert.equal(reads.length, 10)
      assert.deepEqual(
        reads.filter(({ detail }) => !/USING COVERING INDEX/.test(detail)),
        [],
      )
    })
  })
})

const addPendingTasks = (db: Database, count: number) =>
  db.write((tx) =>
    sql`insert into tasks (id, owner_client, owner_subject, report_type, format, status, progress, attempts, version_prefix,
        revision, created_at, updated_at)
      with recursive n (i) as (select 1 union all select i + 1 from n where i < ${count})
      select cast(i as text), 'c', 'c', 'products', 'csv', 'pending', 0, 0, '', 1, '2026-01-01', '2026-01-01' from n`.execute(
      tx,
    ),
  )
