import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { sql } from 'kysely'
import { appOn } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'

onSqlite((engine) => {
  describe('a full disk (F-DISK)', () => {
    const service = appOn(engine, { prefixes: [''] })
    before(async () => {
      await post('Before')
    })

    const post = (name: string) => service.send({ method: 'POST', url: '/products', payload: { name, price: 1 } })
    /** Limits the number of pages. When the limit is reached, SQLite reports the same error as for a full disk. */
    const allow = (pages: number) =>
      service.db.write((tx) => sql`pragma max_page_count = ${sql.lit(pages)}`.execute(tx))
    const fill = (name: string) =>
      service.db.write(async (tx) => {
        await tx
          .insertInto('settings')
          .values({ name: `small-${name}`, value: 'x' })
          .execute()
        await tx
          .insertInto('settings')
          .values({ name, value: 'x'.repeat(100_000) })
          .execute()
      })
    const settings = async () =>
      (await service.db.read.selectFrom('settings').select('name').execute()).map(({ name }) => name)

    it("fails every write in the group commit with an 'unavailable' error; none is persisted", async () => {
      const before = await settings()
      await allow(1)
      const small = service.db.write((tx) => tx.insertInto('settings').values({ name: 'small', value: 'x' }).execute())
      const writes = await Promise.allSettled([small, fill('a'), fill('b')])
      for (const write of writes) {
        assert.equal(write.status, 'rejected')
        assert.ok(service.db.engine.isUnavailable((write as PromiseRejectedResult).reason))
        assert.equal(service.db.engine.isDuplicate((write as PromiseRejectedResult).reason), false)
      }
      assert.deepEqual(await settings(), before)
    })

    it('leads to 503 with Retry-After for writes that do not fit, and to 200 for reads', async () => {
      await allow(1)
      const long = 'x'.repeat(200)
      const answers = await Promise.all(Array.from({ length: 300 }, (_, at) => post(`${at} ${long}`.slice(0, 200))))
      const refused = answers.filter(({ statusCode }) => statusCode !== 201)
      assert.ok(refused.length > 0)
      // Each rejected write is also logged as an error.
      assert.equal(service.faults.splice(0).length, refused.length)
      for (const answer of refused) {
        assert.equal(answer.statusCode, 503)
        assert.equal(answer.json().errorCode, 'SERVICE_UNAVAILABLE')
        assert.match(String(answer.headers['retry-after']), /^[1-9][0-9]*$/)
        assert.doesNotMatch(answer.body, /disk|full|SQLITE/i)
      }
      assert.equal((await service.send({ url: '/products/1' })).json().name, 'Before')
      const found = await service.send({ url: '/products?limit=1', headers: { prefer: 'count=exact' } })
      assert.equal(Number(found.headers['x-total-count']), 1 + 300 - refused.length)
      assert.equal((await service.send({ url: '/readyz' })).statusCode, 200)
    })

    it('requires no restart: 201 for writes again as soon as there is space', async () => {
      await allow(1_000_000)
      assert.equal((await post('After')).statusCode, 201)
      await fill('c')
    })
  })
})
