import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { Agent, request } from 'undici'
import { forEachEngine } from '../support/engines.ts'
import { eventually, realService } from '../support/service.ts'

/** The number of kills; long runs set KILLS=50. */
const kills = Number(process.env.KILLS ?? 5)
/** The service restarts after each kill, which is slow on a busy machine. */
const limitMs = 60_000 + kills * 20_000

forEachEngine((engine) => {
  describe(`an event stream whose node is killed ${kills} times`, () => {
    it('sends every committed change, in order, to a client that reconnects', { timeout: limitMs }, async () => {
      const place = await engine.place()
      const service = await realService({ DATABASE_URL: place.url, PLINTH_THREADS: '1' })
      const ended = new AbortController()
      const seen: number[] = []
      let resets = 0
      let lastEventId: string | undefined
      const agent = () =>
        new Agent({ connect: { ca: readFileSync(join(service.dataDir, 'certificates', 'authority.crt')) } })
      /** Opens the stream and reads it until the connection closes. */
      const read = async (token: string) => {
        const dispatcher = agent()
        const headers = {
          ...{ accept: 'text/event-stream', authorization: `Bearer ${token}` },
          ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
        }
        try {
          const url = `https://localhost:${service.port}/products?name=counter`
          const { statusCode, body } = await request(url, { headers, dispatcher, signal: ended.signal })
          assert.equal(statusCode, 200)
          let text = ''
          for await (const chunk of body) {
            text += chunk
            const blocks = text.split('\n\n')
            text = blocks.pop() ?? ''
            for (const block of blocks) {
              lastEventId = /^id: (.*)$/m.exec(block)?.[1] ?? lastEventId
              if (block.includes('event: reset')) resets++
              const price = /"price":(\d+)/.exec(block)?.[1]
              if (price) seen.push(Number(price))
            }
          }
        } finally {
          await dispatcher.destroy()
        }
      }
      await service.start()
      const token = await service.token()
      const reading = (async () => {
        while (!ended.signal.aborted) {
          await read(token).catch((error) => {
            if (error instanceof assert.AssertionError) throw error
          })
          await new Promise(setImmediate)
        }
      })()
      let price = 0
      try {
        await eventually('the stream is open', async () => lastEventId !== undefined)
        const created = await service.call('POST', '/products', { body: { name: 'counter', price: 0 } })
        assert.equal(created.status, 201)
        const { id } = created.json()
        /** Sets the current `price`; returns whether the service confirmed it. */
        const write = () =>
          service.call('PUT', `/products/${id}`, { body: { name: 'counter', price } }).then(
            ({ status }) => status === 200,
            () => false,
          )
        for (let kill = 0; kill < kills; kill++) {
          for (let count = 0; count < 5; count++) {
            price++
            assert.ok(await write())
          }
          price++
          const last = write()
          await service.kill('SIGKILL')
          await last
          await service.start()
          assert.ok(await write())
        }
        await eventually('the last change has arrived', async () => seen.at(-1) === price)
      } finally {
        ended.abort()
        await reading
        await service.kill('SIGTERM')
        await service.remove()
        await place.remove()
      }
      assert.equal(resets, 0)
      // A repeated request may set the same price twice.
      const distinct = seen.filter((one, at) => one !== seen[at - 1])
      assert.deepEqual(
        distinct,
        Array.from({ length: price + 1 }, (_, at) => at),
      )
    })
  })
})
