import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { collection, service as define, Type, view } from '../../../src/plinth.ts'
import type { Database } from '../../../src/storage/database.ts'
import type { LoggedFields } from '../../../src/storage/row-changes/recent-entries.ts'
import { appOn, everyScope, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { openEventStream, originOf } from '../../support/event-streams.ts'

const bearer = token(everyScope)
const merge = { 'content-type': 'application/merge-patch+json' }

const parts = collection({
  path: '/parts',
  noun: 'part',
  body: Type.Object({ label: Type.String({ maxLength: 40 }), weight: Type.Integer() }),
  filters: ['label'],
})
const renamed = view(parts, { rename: { label: 'title' } })
const versioned = define({ resources: [parts], versions: { v1: [parts], v2: [renamed] } })

/** Returns the logged changes in the order in which they were written. */
async function changesIn(db: Database): Promise<LoggedFields[]> {
  const entries = await db.read.selectFrom('rowChanges').select('changes').orderBy('seq').execute()
  return entries.flatMap(({ changes }) => JSON.parse(changes))
}

forEachEngine((engine) => {
  describe('the log of changes', () => {
    const service = appOn(engine)
    let origin: string
    before(async () => {
      origin = await originOf(service.app)
    })
    const create = async (name: string): Promise<number> =>
      (await service.send({ method: 'POST', url: '/products', payload: { name, price: 1 } })).json().id
    const patch = (id: number, price: number) =>
      service.send({ method: 'PATCH', url: `/products/${id}`, payload: { price }, headers: merge })
    const logged = () => changesIn(service.db)

    it('contains no changes to a resource that never had a stream', async () => {
      const id = await create('Unseen')
      assert.equal((await patch(id, 2)).statusCode, 200)
      assert.equal((await service.send({ method: 'DELETE', url: `/products/${id}` })).statusCode, 204)
      assert.deepEqual(await logged(), [])
    })

    it('contains each change made after the resource’s first stream was opened, with the new row and the previous values', async () => {
      const stream = await openEventStream(`${origin}/products`, bearer)
      await stream.next()
      const id = await create('Seen')
      await patch(id, 2)
      await patch(id, 3)
      await service.send({ method: 'DELETE', url: `/products/${id}` })
      await stream.close()
      assert.deepEqual(
        (await logged()).map(({ change, before, after }) => [change, before?.price, after?.price]),
        [
          ['created', undefined, 1],
          ['updated', 1, 2],
          ['updated', 2, 3],
          ['deleted', 3, undefined],
        ],
      )
    })

    it('contains the row before each of 50 concurrent changes', async () => {
      const id = await create('Contended')
      const from = (await logged()).length
      const url = `/products/${id}`
      const put = (price: number) => service.send({ method: 'PUT', url, payload: { name: 'Contended', price } })
      const written = await Promise.all(Array.from({ length: 50 }, (_, at) => put(at + 2)))
      assert.deepEqual([...new Set(written.map(({ statusCode }) => statusCode))], [200])
      const changes = (await logged()).slice(from)
      assert.equal(changes.length, 50)
      const byRevision = changes.toSorted((one, other) => Number(one.after?.revision) - Number(other.after?.revision))
      let price: unknown = 1
      for (const { before, after } of byRevision) {
        assert.deepEqual([before?.revision, before?.price], [Number(after?.revision) - 1, price])
        price = after?.price
      }
    })

    it('omits changes to a resource that streams no longer watch', async () => {
      const from = (await logged()).length
      await service.db.write((tx) => tx.deleteFrom('rowWatches').execute())
      await create('Unseen again')
      assert.equal((await logged()).length, from)
    })
  })

  describe('the log of changes made through a version with other field names', () => {
    const service = appOn(engine, { definition: versioned })
    const granted = token(Object.keys(versioned.scopes).join(' '))

    it('uses the collection’s field names for the row before and after each change', async () => {
      const stream = await openEventStream(`${await originOf(service.app)}/v1/parts?label=bolt`, granted)
      const send = (method: 'POST' | 'PATCH', url: string, payload: object) =>
        service.send({ method, url, payload, token: granted, ...(method === 'PATCH' && { headers: merge }) })
      const { id } = (await send('POST', '/v2/parts', { title: 'bolt', weight: 1 })).json()
      assert.equal((await send('PATCH', `/v2/parts/${id}`, { weight: 2 })).statusCode, 200)
      assert.equal((await send('PATCH', `/v2/parts/${id}`, { title: 'nut' })).statusCode, 200)
      const events = [await stream.event(), await stream.event(), await stream.event()]
      assert.deepEqual(
        events.map((one) => [one?.event, one?.data?.label, one?.data?.weight]),
        [
          ['created', 'bolt', 1],
          ['updated', 'bolt', 2],
          ['removed', undefined, undefined],
        ],
      )
      await stream.close()
      const logged = await changesIn(service.db)
      for (const { before, after } of logged) assert.ok(!('title' in { ...before, ...after }))
      assert.equal(logged.at(-1)?.before?.label, 'bolt')
    })
  })
})
