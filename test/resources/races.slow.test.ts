import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { appOn, type TestApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const clients = 20
const increments = 10

forEachEngine((engine) => {
  describe('concurrent writers of one product (T-RACE-01)', () => {
    const service = appOn(engine, { prefixes: [''] })
    let url: string

    const send = (request: Parameters<TestApp['send']>[0]) => service.send(request)
    const start = async () => {
      const answer = await send({ method: 'POST', url: '/products', payload: { name: 'Counter', price: 0 } })
      url = answer.headers.location as string
    }
    const read = async () => {
      const answer = await send({ url })
      return { price: answer.json().price as number, tag: String(answer.headers.etag) }
    }

    /** Reads the price and writes it, incremented, if its tag is still current; returns the status. */
    const increment = async (method: 'PUT' | 'PATCH') => {
      const { price, tag } = await read()
      const payload = { name: 'Counter', price: price + 1 }
      const answer = await send({ method, url, payload, headers: { 'if-match': tag } })
      if (answer.statusCode === 200) assert.equal(answer.json().price, price + 1)
      else assert.equal(answer.json().errorCode, 'PRECONDITION_FAILED')
      return answer.statusCode
    }

    for (const method of ['PUT', 'PATCH'] as const) {
      it(`412 for outdated ${method}s by ${clients} clients; the counter equals the number of 200s`, async () => {
        await start()
        const client = async () => {
          const statuses: number[] = []
          for (let turn = 0; turn < increments; turn++) statuses.push(await increment(method))
          return statuses
        }
        const statuses = (await Promise.all(Array.from({ length: clients }, client))).flat()
        const won = statuses.filter((status) => status === 200).length
        assert.deepEqual(new Set(statuses), new Set([200, 412]))
        const { price, tag } = await read()
        assert.equal(price, won)
        assert.equal(tag, `"${won + 1}"`)
      })
    }

    it('200 for every writer eventually, if writers that receive 412 read the product again and retry', async () => {
      await start()
      const client = async () => {
        while ((await increment('PUT')) !== 200);
      }
      await Promise.all(Array.from({ length: clients }, client))
      assert.deepEqual(await read(), { price: clients, tag: `"${clients + 1}"` })
    })

    it('200 or 204 for exactly one of many PUTs and DELETEs with the same tag, 412 or 404 for the others (T-RACE-02)', async () => {
      await start()
      const headers = { 'if-match': '"1"' }
      const answers = await Promise.all(
        Array.from({ length: clients }, (_, at) =>
          at % 2
            ? send({ method: 'DELETE', url, headers })
            : send({ method: 'PUT', url, payload: { name: 'Counter', price: at }, headers }),
        ),
      )
      const statuses = answers.map(({ statusCode }) => statusCode)
      assert.equal(statuses.filter((status) => status === 200 || status === 204).length, 1)
      for (const status of statuses) assert.ok([200, 204, 404, 412].includes(status), String(status))
      const exists = (await send({ url })).statusCode === 200
      assert.equal(exists, statuses.includes(200))
    })

    it('200 for each of 20 unconditional PUTs; each creates its own revision', async () => {
      await start()
      const payload = { name: 'Counter', price: 1 }
      const answers = await Promise.all(Array.from({ length: clients }, () => send({ method: 'PUT', url, payload })))
      const tags = answers.map(({ headers }) => Number(String(headers.etag).slice(1, -1))).sort((a, b) => a - b)
      assert.deepEqual(
        tags,
        Array.from({ length: clients }, (_, at) => at + 2),
      )
    })
  })
})
