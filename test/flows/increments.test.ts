import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const clients = 100
const increments = 100

forEachEngine((engine) => {
  describe(`${clients} clients that each make ${increments} attempts to increment one counter (P7, T-RACE-01)`, () => {
    const service = appOn(engine)

    it('200 for each stored increment, 412 for every other attempt', {
      timeout: 300_000,
    }, async () => {
      const created = await service.send({ method: 'POST', url: '/products', payload: { name: 'Counter', price: 0 } })
      const url = created.headers.location as string
      const read = async () => {
        const response = await service.send({ url })
        return { price: response.json().price as number, tag: String(response.headers.etag) }
      }
      /** The prices set by successful requests, in response order. */
      const set: number[] = []
      let lost = 0
      const client = async () => {
        let known = await read()
        for (let attempt = 0; attempt < increments; attempt++) {
          const payload = { name: 'Counter', price: known.price + 1 }
          const response = await service.send({ method: 'PUT', url, payload, headers: { 'if-match': known.tag } })
          if (response.statusCode === 200) {
            known = { price: payload.price, tag: String(response.headers.etag) }
            set.push(payload.price)
          } else {
            assert.deepEqual([response.statusCode, response.json().errorCode], [412, 'PRECONDITION_FAILED'])
            lost++
            known = await read()
          }
        }
      }
      await Promise.all(Array.from({ length: clients }, client))

      const { price, tag } = await read()
      assert.equal(set.length + lost, clients * increments)
      assert.ok(lost > 0, 'nobody lost, so nobody raced')
      assert.equal(price, set.length)
      assert.equal(tag, `"${set.length + 1}"`)
      // No two clients may have set the same value.
      assert.equal(new Set(set).size, set.length)
    })
  })
})
