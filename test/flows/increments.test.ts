import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const clients = 100
const increments = 100

forEachEngine((engine) => {
  describe(`${clients} clients that each try ${increments} increments of one counter (P7, T-RACE-01)`, () => {
    const service = appOn(engine)

    it('200 exactly as often as the counter grew, 412 for every loser', { timeout: 120_000 }, async () => {
      const made = await service.send({ method: 'POST', url: '/products', payload: { name: 'Counter', price: 0 } })
      const url = made.headers.location as string
      const read = async () => {
        const answer = await service.send({ url })
        return { price: answer.json().price as number, tag: String(answer.headers.etag) }
      }
      /** Every price set according to a 200, in response order. */
      const set: number[] = []
      let lost = 0
      const client = async () => {
        let known = await read()
        for (let turn = 0; turn < increments; turn++) {
          const payload = { name: 'Counter', price: known.price + 1 }
          const answer = await service.send({ method: 'PUT', url, payload, headers: { 'if-match': known.tag } })
          if (answer.statusCode === 200) {
            known = { price: payload.price, tag: String(answer.headers.etag) }
            set.push(payload.price)
          } else {
            assert.deepEqual([answer.statusCode, answer.json().errorCode], [412, 'PRECONDITION_FAILED'])
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
      // No two clients set the same value.
      assert.equal(new Set(set).size, set.length)
    })
  })
})
