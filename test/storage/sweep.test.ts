import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { deleteExpiredResponses } from '../../src/idempotency/store.ts'
import { expireSamples } from '../../src/metrics/history/sampler.ts'
import { sweepExpired } from '../../src/oauth/tokens/auth-records.ts'
import { sweepInvitations } from '../../src/oauth/users/invitations.ts'
import { sweepLoginTries } from '../../src/oauth/users/login-throttle.ts'
import { expireQuotaUses } from '../../src/rate-limits/stores/quotas.ts'
import { expireLimitWindows } from '../../src/rate-limits/stores/windows.ts'
import type { Database } from '../../src/storage/database.ts'
import { expireRequestCounts } from '../../src/storage/request-counts.ts'
import { maxSwept, pacedWrites } from '../../src/storage/sweep.ts'
import { expireTraffic } from '../../src/traffic/counter.ts'
import { expireRequestLog } from '../../src/traffic/request-log.ts'
import { expireVersionCalls } from '../../src/versioning/call-counts.ts'
import { expireDeliveries } from '../../src/webhooks/expire.ts'
import { forEachEngine } from '../support/engines.ts'

const rows = maxSwept * 2 + 100
const old = '2020-01-01T00:00:00.000Z'
const now = () => Date.parse('2026-03-01T12:00:00.000Z')

const samples = [
  ...['succeeded', 'client_errors', 'limited', 'server_errors', 'delivered', 'delivery_failures', 'unlogged'],
  ...Array.from({ length: 14 }, (_, at) => `duration${at}`),
]

/** For each table, an expired and a current row, as SQL expressions for the columns of row number `n`. */
const cases: [
  table: string,
  columns: string,
  over: string,
  lasting: string,
  sweep: (db: Database) => Promise<unknown>,
][] = [
  ['login_tries', 'key, count, ends_at', `n, 1, '${old}'`, `'x', 1, '2030'`, (db) => sweepLoginTries(db, now)],
  [
    'invitations',
    'user_id, token_hash, expires_at',
    `n, n, '${old}'`,
    `${rows + 1}, 'x', '2030'`,
    (db) => sweepInvitations(db, now),
  ],
  ['limit_windows', 'key, points, expire', 'n, 1, 5', `'x', 1, ${now() + 1}`, (db) => expireLimitWindows(db, now)],
  [
    'quota_uses',
    'key, period, used, granted',
    `n, '2020-01', 1, 1`,
    `'x', '2026-03', 1, 1`,
    (db) => expireQuotaUses(db, now),
  ],
  [
    'request_counts',
    'day, client_id, requests',
    `'2020-01-01', n, 1`,
    `'2026-03-01', 'x', 1`,
    (db) => expireRequestCounts(db, now),
  ],
  [
    'version_calls',
    'version, client_id, calls, last_call_at',
    `'v1', n, 1, '${old}'`,
    `'v1', 'x', 1, '2026-03'`,
    (db) => expireVersionCalls(db, now),
  ],
  [
    'auth_records',
    'kind, id, payload, expires_at',
    `'AccessToken', n, '{}', '${old}'`,
    `'AccessToken', 'x', '{}', '2030'`,
    (db) => sweepExpired(db, now),
  ],
  [
    'answers',
    'id, digest, sealed, created_at',
    `n, '', '', '${old}'`,
    `'x', '', '', '2030'`,
    (db) => deleteExpiredResponses(db, now),
  ],
  [
    'metric_samples',
    `at, node, loop_delay_ms, memory_bytes, ${samples.join()}`,
    `5, n, 1, 1, ${samples.map(() => 0)}`,
    `${now()}, 'x', 1, 1, ${samples.map(() => 0)}`,
    (db) => expireSamples(db, now),
  ],
  [
    'traffic',
    'period, kind, at, node, counts, expires_at',
    `'hour', 'client', '${old}', n, '{}', '${old}'`,
    `'hour', 'client', '${old}', 'x', '{}', '2030'`,
    (db) => expireTraffic(db, now),
  ],
  [
    'request_log',
    'id, request_id, node, method, path, status, ms',
    `'0' || n, 'a', 'a', 'GET', '/', 200, 1`,
    `'z', 'a', 'a', 'GET', '/', 200, 1`,
    (db) => expireRequestLog(db, now),
  ],
  ['delivery_lanes', 'lane', 'n', `'x'`, (db) => expireDeliveries(db, now)],
]

forEachEngine((engine) => {
  describe(`a sweep of ${rows} rows`, () => {
    let db: Database
    before(async () => {
      db = await engine.database()
      const text = "'u' || n"
      await insert(
        'users',
        'name, name_key, email, email_key, revision, created_at, updated_at',
        `${text}, ${text}, ${text}, ${text}, 1, '${old}', '${old}'`,
        rows + 1,
      )
    })
    after(() => db.close())

    const insert = (table: string, columns: string, values: string, count: number) =>
      db.write(async (tx) => {
        const numbers = `with recursive s(n) as (select 1 union all select n + 1 from s where n < ${count})`
        await sql.raw(`insert into ${table} (${columns}) ${numbers} select ${values} from s`).execute(tx)
      })
    const countOf = async (table: string) => {
      const { rows: found } = await sql<{ count: number }>`select count(*) as count from ${sql.table(table)}`.execute(
        db.read,
      )
      return Number(found[0]?.count)
    }

    for (const [table, columns, over, lasting, sweep] of cases) {
      it(`removes only expired rows from ${table}, at most ${maxSwept} per transaction`, async () => {
        await insert(table, columns, over, rows)
        await insert(table, columns, lasting, 1)
        if (table === 'delivery_lanes')
          await db.write((tx) => sql`update delivery_lanes set due_at = '2030' where lane = 'x'`.execute(tx))
        const removed: number[] = []
        const write: Database['write'] = async (unit) => {
          const before = await countOf(table)
          const result = await db.write(unit)
          removed.push(before - (await countOf(table)))
          return result
        }
        await sweep({ ...db, write })
        assert.equal(await countOf(table), 1)
        assert.ok(
          removed.every((count) => count <= maxSwept),
          removed.join(),
        )
      })
    }
  })

  describe('sweep writes', () => {
    const { signal: never } = new AbortController()
    let db: Database
    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())

    it('are each followed by a pause as long as the write took, but at least 5 ms and at most 200 ms', async () => {
      const clock = { ms: 0 }
      const pauses: number[] = []
      const paced = pacedWrites(db, { monotonic: () => clock.ms, pause: async (ms) => pauses.push(ms), signal: never })
      const taking = (ms: number) =>
        paced.write(async () => {
          clock.ms += ms
          return ms
        })
      assert.deepEqual([await taking(1), await taking(30), await taking(5_000)], [1, 30, 5_000])
      assert.deepEqual(pauses, [5, 30, 200])
    })

    it('return their result even if the sweeps are stopped during the pause; later writes are rejected', async () => {
      const stopping = new AbortController()
      const pause = (ms: number) => wait(ms * 1_000, undefined, stopping)
      const paced = pacedWrites(db, { monotonic: () => 0, pause, signal: stopping.signal })
      const written = paced.write(async () => {
        setImmediate(() => stopping.abort())
        return 'committed'
      })
      assert.equal(await written, 'committed')
      await assert.rejects(
        paced.write(async () => assert.fail('written')),
        { name: 'AbortError' },
      )
    })

    it('are not followed by a pause if they fail', async () => {
      const paced = pacedWrites(db, { monotonic: () => 0, pause: () => assert.fail('paused'), signal: never })
      await assert.rejects(
        paced.write(async () => {
          throw new Error('full')
        }),
        /full/,
      )
    })
  })
})
