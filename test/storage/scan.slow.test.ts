import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Database } from '../../src/storage/database.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { ScanRefused } from '../../src/storage/scans/scan.ts'
import { forEachEngine, onPostgres } from '../support/engines.ts'
import { drivenTimers, until } from '../support/timers.ts'

forEachEngine((engine) => {
  describe('Database.scan', () => {
    let db: Database
    before(async () => {
      db = await engine.database()
      const common = { revision: 1, createdAt: '2026-01-01', updatedAt: '2026-01-01' }
      const rows = Array.from({ length: 1_200 }, (_, at) => ({
        name: `N${at}`,
        nameKey: `n${at}`,
        price: at,
        ...common,
      }))
      await db.write((tx) => tx.insertInto('products').values(rows).execute())
    })
    after(() => db.close())

    /** Returns a query over all pairs of rows, which takes seconds, or over all triples, which takes minutes. */
    const long = (factor: 'pairs' | 'triples', to = db) => {
      const names = factor === 'pairs' ? ['one', 'two'] : ['one', 'two', 'three']
      const tables = names.map((name) => sql`products as ${sql.ref(name)}`)
      const goesOn = names.map((name) => to.engine.interruptible(name))
      return sql<{ lengths: number }>`select sum(length(one.name) + length(two.name)) as lengths
        from ${sql.join(tables)} where ${sql.join(goesOn, sql` and `)}`.compile(to.read)
    }
    const scan = (query: ReturnType<typeof long>, account: string, by = db) =>
      by.scan({ compile: () => query }, { account })
    const product = () => db.read.selectFrom('products').select(['nameKey', 'createdAt'])

    it('resolves with rows in camelCase', async () => {
      const query = product().where('name', '=', 'N7').where(db.engine.interruptible('products'))
      assert.deepEqual(await db.scan(query, { account: 'a' }), [{ nameKey: 'n7', createdAt: '2026-01-01' }])
    })

    it('sees every write that was acknowledged before the scan', async () => {
      const named = product().where('name', 'like', 'Fresh%')
      for (let count = 1; count <= 20; count++) {
        const row = { name: `Fresh ${count}`, nameKey: `fresh ${count}`, price: 1, revision: 1 }
        const times = { createdAt: '2026-01-01', updatedAt: '2026-01-01' }
        await db.write((tx) =>
          tx
            .insertInto('products')
            .values({ ...row, ...times })
            .execute(),
        )
        assert.equal((await db.scan(named, { account: 'a' })).length, count)
      }
      await db.write((tx) => tx.deleteFrom('products').where('name', 'like', 'Fresh%').execute())
    })

    it("rejects with the engine's error, and runs the next scan", async () => {
      const wrong = sql`select * from nowhere`.compile(db.read)
      await assert.rejects(scan(wrong as ReturnType<typeof long>, 'a'), /nowhere/)
      assert.equal((await db.scan(product().where('name', '=', 'N8'), { account: 'a' })).length, 1)
    })

    it('does not block the event loop or other reads while it runs', async () => {
      let ended = false
      const scanned = scan(long('pairs'), 'a').finally(() => {
        ended = true
      })
      let answered = 0
      while (!ended) {
        await db.read.selectFrom('products').select('id').where('id', '=', 1).execute()
        await turn()
        answered++
      }
      assert.ok(Number((await scanned)[0]?.lengths) > 0)
      // If the scan blocked the main thread, no read would be answered during it.
      assert.ok(answered > 20, `${answered} reads were answered meanwhile`)
    })

    it('rejects a running scan when the database is closed', async () => {
      const other = await openDatabase(db.url)
      const scanned = assert.rejects(scan(long('triples', other), 'a', other), ScanRefused)
      await other.scan(other.read.selectFrom('products').select('id').limit(1), { account: 'b' })
      await other.close()
      await scanned
    })

    it('rejects scans at the time limit, and then runs the next scan', async () => {
      const timers = drivenTimers()
      const other = await openDatabase(db.url, { setTimer: timers.later })
      const one = other.read.selectFrom('products').select('id').limit(1)
      const scans = [1, 2].map((at) => scan(long('triples', other), `a${at}`, other))
      const refused = scans.map((scan) => assert.rejects(scan, ScanRefused))
      await until(() => timers.pending().length === 2)
      timers.pass(5_000)
      await Promise.all(refused)
      assert.ok(db.engine.isUnavailable(await scans[0]?.catch((error) => error)))
      // This scan is not rejected, because its time limit does not expire.
      assert.equal((await other.scan(one, { account: 'b' })).length, 1)
      await other.close()
    })
  })
})

onPostgres((engine) => {
  describe('connections', () => {
    let db: Database
    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())
    const sleep = (seconds: number) => sql`select pg_sleep(${sql.lit(seconds)})`.compile(db.read)
    const alive = sql<{ alive: number }>`select 1 as alive`

    it('are separate for admission checks, scans and other requests', async () => {
      const order: string[] = []
      const slow = [
        ...Array.from({ length: 30 }, () => db.read.executeQuery(sleep(0.5))),
        ...Array.from({ length: 4 }, (_, at) => db.scan({ compile: () => sleep(0.5) }, { account: `a${at}` })),
      ].map((query) => query.then(() => order.push('slow')))
      await Promise.all([
        db.ping().then(() => order.push('ready')),
        alive.execute(db.reserved.read).then(() => order.push('known')),
        db.reserved.write((tx) => alive.execute(tx)).then(() => order.push('written')),
      ])
      assert.equal(order.includes('slow'), false, order.join())
      await Promise.all(slow)
      const scans = Array.from({ length: 8 }, (_, at) =>
        db.scan({ compile: () => sleep(0.5) }, { account: `b${at}` }).then(() => order.push('scan')),
      )
      order.length = 0
      await alive.execute(db.read)
      await db.write((tx) => alive.execute(tx))
      assert.deepEqual(order, [])
      await Promise.all(scans)
    })

    it('are limited to one per account for scans', async () => {
      const scans = Array.from({ length: 6 }, () => db.scan({ compile: () => sleep(0.2) }, { account: 'a' }))
      const most = sql<{ count: number }>`select count(*) as count from pg_stat_activity
        where datname = current_database() and state = 'active' and query like 'select pg_sleep%'`
      let ended = false
      const all = Promise.all(scans).finally(() => {
        ended = true
      })
      while (!ended) assert.ok(Number((await most.execute(db.read)).rows[0]?.count) <= 1)
      await all
    })

    it("cancel a scan's statement on the server after five seconds, with an 'unavailable' error", async () => {
      const error = await db.scan({ compile: () => sleep(60) }, { account: 'a' }).catch((caught) => caught)
      assert.equal(error.code, '57014')
      assert.ok(db.engine.isUnavailable(error))
    })
  })
})
