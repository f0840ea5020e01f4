import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { Agent } from 'undici'
import { type OpenEventStream, openEventStream } from '../support/event-streams.ts'
import type { RealService } from '../support/service.ts'

/** Enough streams that each of four threads almost certainly has some. */
const streams = 12
const writes = 20

/** Tests the event streams of a running service with several threads. The last test stops the service. */
export function eventStreamTests(on: { service: RealService }): void {
  let agents: Agent[]
  before(() => {
    const ca = readFileSync(join(on.service.dataDir, 'certificates', 'authority.crt'))
    agents = Array.from({ length: streams }, () => new Agent({ connect: { ca } }))
  })
  after(async () => {
    for (const agent of agents ?? []) await agent.destroy()
  })

  /** Opens a stream on each connection. The kernel distributes connections to threads. */
  const openAll = async (path: string, headers?: Record<string, string>) => {
    const token = await on.service.token()
    const url = `https://localhost:${on.service.port}${path}`
    return Promise.all(agents.map((agent) => openEventStream(url, token, headers, agent)))
  }
  const pricesOn = async (stream: OpenEventStream, count: number) => {
    const prices: unknown[] = []
    while (prices.length < count) prices.push((await stream.event())?.data?.price)
    return prices
  }
  const create = async (name: string) => {
    const { status, json } = await on.service.call('POST', '/products', { body: { name, price: 0 } })
    assert.equal(status, 201)
    return json().id
  }
  /** Changes a row repeatedly. Each change uses a new connection, so any thread may process it. */
  const change = async (name: string, id: number, from: number, to: number) => {
    for (let price = from; price <= to; price++) {
      const { status } = await on.service.call('PUT', `/products/${id}`, {
        body: { name, price },
        headers: { connection: 'close' },
      })
      assert.equal(status, 200)
    }
  }
  const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at)

  it('200 with every change on every thread, in order', async () => {
    const id = await create('Plane')
    const opened = await openAll('/products?name=Plane')
    await change('Plane', id, 1, writes)
    for (const stream of opened) assert.deepEqual(await pricesOn(stream, writes), range(1, writes))
    for (const stream of opened) await stream.close()
  })

  it('200 with all changes after a Last-Event-ID, even if a different thread issued the id', async () => {
    const id = await create('Chisel')
    const [first, ...others] = await openAll('/products?name=Chisel')
    await change('Chisel', id, 1, 1)
    const seen = String((await first?.event())?.id)
    for (const stream of [first, ...others]) await stream?.close()
    await change('Chisel', id, 2, writes)
    const resumed = await openAll('/products?name=Chisel', { 'last-event-id': seen })
    for (const stream of resumed) assert.deepEqual(await pricesOn(stream, writes - 1), range(2, writes))
    for (const stream of resumed) await stream.close()
  })

  it('200 with streams that end cleanly, with a retry time, when the service stops; it exits with 0 on SIGTERM', async () => {
    const opened = await openAll('/products?name=Rasp')
    for (const stream of opened) assert.equal((await stream.next())?.retry, '2000')
    const stopped = on.service.kill('SIGTERM')
    for (const stream of opened) {
      let last = await stream.next()
      for (let next = last; next !== undefined; next = await stream.next()) last = next
      const retryMs = Number(last?.retry)
      assert.ok(retryMs >= 1_000 && retryMs <= 3_000, JSON.stringify(last))
    }
    await stopped
    assert.equal(on.service.child().exitCode, 0, on.service.output())
    assert.match(on.service.output(), /service stopped/)
  })
}
