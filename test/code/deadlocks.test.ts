import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import type { CodeContext } from '../../src/code/context-types.ts'
import { action, hooks, job, Line, plinth, Ref, Type } from '../../src/plinth.ts'
import { jobsOn } from '../jobs/support.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine, onPostgres } from '../support/engines.ts'
import { jobsOf } from './support.ts'

const scopes = 'stocks:read stocks:write items:read items:write'
const maxAttempts = 10

/** The items to move and their new stocks, in the order in which to move them. */
const Moves = Type.Object({ moves: Type.Array(Type.Object({ id: Type.Integer(), stockId: Type.Integer() })) })

/** Controls the actions of a service on one engine, and counts how often they run. */
interface Seen {
  isPostgres: boolean
  /** How often an action has started since the test began. */
  runs: number
  /** How many more times `fail` raises an error, and its SQLSTATE. */
  failures: { left: number; state: string }
}

/** Waits until the transactions of two runs hold a lock. Only the first two runs wait. */
async function meet({ isPostgres, runs }: Seen, db: CodeContext['db']): Promise<void> {
  if (!isPostgres || runs > 2) return
  await sql`select pg_advisory_xact_lock_shared(1)`.execute(db)
  const query = sql<{ held: string }>`
    select count(*) as held from pg_locks where locktype = 'advisory' and mode = 'ShareLock'
      and database = (select oid from pg_database where datname = current_database())`
  while (Number((await query.execute(db)).rows[0]?.held) < 2);
}

/** Makes PostgreSQL raise an error with this SQLSTATE. */
const raise = (db: CodeContext['db'], state: string) =>
  sql`do $$ begin raise exception using errcode = ${sql.lit(state)}; end $$`.execute(db)

function definitionOf(seen: Seen) {
  const { collection, service } = plinth()
  const stocks = collection({
    path: '/stocks',
    noun: 'stock',
    body: Type.Object({ name: Line(1, 40) }),
    computed: { total: { sum: 'items.amount', as: Type.Integer() }, size: { count: 'items' } },
  })
  const items = collection({
    path: '/items',
    noun: 'item',
    // When an item leaves a stock, the hook moves its partner to that stock.
    body: Type.Object({ stockId: Ref(stocks), amount: Type.Integer(), partnerId: Type.Optional(Type.Integer()) }),
    filters: ['stockId'],
  })
  const swap = hooks(items, {
    changed: async (before, after, { update }) => {
      if (after.partnerId !== undefined && after.stockId !== before.stockId) {
        await update(items, after.partnerId, { stockId: before.stockId })
      }
    },
  })
  const moveAll = action(items, 'move-all', {
    on: 'collection',
    input: Moves,
    output: Type.Object({}),
    run: async ({ moves }, { update }) => {
      for (const { id, stockId } of moves) await update(items, id, { stockId })
      return {}
    },
  })
  const meeting = action(items, 'meet', {
    on: 'collection',
    input: Moves,
    output: Type.Object({}),
    run: async ({ moves: [first, ...others] }, { update, db }) => {
      seen.runs++
      if (first) await update(items, first.id, { stockId: first.stockId })
      await meet(seen, db)
      try {
        for (const { id, stockId } of others) await update(items, id, { stockId })
      } catch {
        throw new Error('replaces the error of the call')
      }
      return {}
    },
  })
  const fail = action(stocks, 'fail', {
    run: async ({ id, name }, _input, { update, db }) => {
      seen.runs++
      await update(stocks, id, { name: `${name}!` })
      if (seen.failures.left-- > 0) await raise(db, seen.failures.state)
    },
  })
  return service({ resources: [stocks, items], code: { swap, moveAll, meeting, fail } })
}

onPostgres((engine) => {
  describe('the transaction of a job', () => {
    const test = jobsOn(engine)

    it('runs again after a deadlock, and stores only the changes of the last run', async () => {
      const seen = { runs: 0 }
      const { collection, service } = plinth()
      const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ text: Line(1, 40) }) })
      const copy = job('copy', {
        input: Type.Object({}),
        retries: 0,
        run: (_input, { transaction }) =>
          transaction(async ({ insert, db }) => {
            await insert(notes, { text: `run ${++seen.runs}` })
            if (seen.runs < 3) await raise(db, '40P01')
          }),
      })
      const worker = await test.node(await jobsOf(test, service({ resources: [notes], code: { copy } })))
      await test.add(worker, {}, {}, 'copy')
      assert.equal((await test.reaches('completed')).failures, 0)
      const texts = await test.db.read
        .selectFrom('resource_notes' as never)
        .select('text' as never)
        .execute()
      assert.deepEqual([seen.runs, texts], [3, [{ text: 'run 3' }]])
    })
  })
})

forEachEngine((engine) => {
  describe('transactions that lock rows in different orders', () => {
    const seen: Seen = { isPostgres: engine.name === 'postgres', runs: 0, failures: { left: 0, state: '' } }
    const app = appOn(engine, { prefixes: [''], definition: definitionOf(seen) })
    const send = async (method: 'GET' | 'POST' | 'PATCH', url: string, payload?: object) => {
      const headers = { ...(method === 'PATCH' && { 'content-type': 'application/merge-patch+json' }) }
      const response = await app.send({ method, url, scopes, ...(payload && { payload }), headers })
      return { status: response.statusCode, headers: response.headers, body: response.json() }
    }
    const create = async (path: string, body: object) => (await send('POST', path, body)).body.id as number
    const createAll = (path: string, bodies: object[]) => Promise.all(bodies.map((body) => create(path, body)))
    const stocksOf = (count: number) =>
      createAll(
        '/stocks',
        Array.from({ length: count }, () => ({ name: 'S' })),
      )
    const statuses = (answers: { status: number }[]) => [...new Set(answers.map(({ status }) => status))]
    /** Checks the totals of stocks against their items; returns the number of items. */
    const checkTotals = async (stockIds: readonly number[]) => {
      let items = 0
      for (const id of stockIds) {
        const rows = (await send('GET', `/items?limit=100&stockId=${id}`)).body as { amount: number }[]
        const { total, size } = (await send('GET', `/stocks/${id}`)).body
        assert.deepEqual([total, size], [rows.reduce((sum, { amount }) => sum + amount, 0), rows.length])
        items += rows.length
      }
      return items
    }

    it('200 for two actions that wait for each other; on PostgreSQL, at least one of them is retried', async () => {
      seen.runs = 0
      const [a = 0, b = 0, c = 0, d = 0] = await stocksOf(4)
      const [first = 0, second = 0] = await createAll('/items', [
        { stockId: a, amount: 1 },
        { stockId: c, amount: 2 },
      ])
      const [there, back] = [
        { id: first, stockId: b },
        { id: second, stockId: d },
      ]
      const answers = await Promise.all([
        send('POST', '/items/meet', { moves: [there, back] }),
        send('POST', '/items/meet', { moves: [back, there] }),
      ])
      assert.deepEqual(statuses(answers), [200], JSON.stringify(answers))
      assert.ok(seen.isPostgres ? seen.runs > 2 : seen.runs === 2, `${seen.runs} runs`)
      assert.equal(await checkTotals([a, c]), 0)
      assert.equal(await checkTotals([b, d]), 2)
    })

    it('200 for 36 moves, twelve at a time, between four stocks by actions, hooks and requests; the totals are correct', async () => {
      const stockIds = await stocksOf(4)
      const stockAt = (at: number) => stockIds[at % 4] as number
      const itemIds = await createAll(
        '/items',
        Array.from({ length: 24 }, (_, at) => ({ stockId: stockAt(at), amount: at })),
      )
      const swapping = await createAll(
        '/items',
        Array.from({ length: 12 }, (_, at) => ({ stockId: stockAt(at), amount: 1, partnerId: itemIds[2 * at] })),
      )
      const itemAt = (at: number) => itemIds[at % itemIds.length] as number
      const moveAt = (at: number) => [
        send('POST', '/items/move-all', {
          moves: [0, 7, 3].map((step) => ({ id: itemAt(5 * at + step), stockId: stockAt(at * 3 + step) })),
        }),
        send('PATCH', `/items/${swapping[at % swapping.length]}`, { stockId: stockAt(at + 1) }),
        send('PATCH', `/items/${itemAt(at)}`, { stockId: stockAt(3 * at + 2) }),
      ]
      // Twelve at a time, so that none waits longer for the others than the lock timeout allows.
      for (const from of [0, 4, 8]) {
        const answers = await Promise.all([0, 1, 2, 3].flatMap((at) => moveAt(from + at)))
        const failed = answers.filter(({ status }) => status !== 200)
        assert.deepEqual(failed, [])
      }
      assert.equal(await checkTotals(stockIds), itemIds.length + swapping.length)
    })

    if (engine.name === 'sqlite') return

    it('200 after a deadlock and after a serialization failure; only the changes of the last run are stored', async () => {
      const [id = 0] = await stocksOf(1)
      for (const [at, state] of ['40P01', '40001'].entries()) {
        Object.assign(seen, { runs: 0, failures: { left: maxAttempts - 1, state } })
        const { status, body } = await send('POST', `/stocks/${id}/fail`)
        assert.deepEqual([status, body.name], [200, `S${'!'.repeat(at + 1)}`])
        assert.equal(seen.runs, maxAttempts)
      }
    })

    it(`503 with Retry-After after ${maxAttempts} deadlocks; nothing is stored`, async () => {
      const [id = 0] = await stocksOf(1)
      Object.assign(seen, { runs: 0, failures: { left: maxAttempts, state: '40P01' } })
      const { status, headers } = await send('POST', `/stocks/${id}/fail`)
      assert.deepEqual([status, headers['retry-after'] !== undefined, seen.runs], [503, true, maxAttempts])
      assert.equal((await send('GET', `/stocks/${id}`)).body.name, 'S')
    })

    it('500 after any other SQL error, without running the action again', async () => {
      const [id = 0] = await stocksOf(1)
      Object.assign(seen, { runs: 0, failures: { left: 1, state: '22012' } })
      assert.equal((await send('POST', `/stocks/${id}/fail`)).status, 500)
      assert.equal(seen.runs, 1)
      app.faults.length = 0
    })
  })
})
