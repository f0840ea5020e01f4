import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { Place } from './engines.ts'
import { sequence } from './kill.ts'
import { eventually, type RealService, realService } from './service.ts'

/** The number of kills, and the random seed. */
export interface KillRun {
  kills: number
  seed: number
  say: (line: string) => void
}

/**
 * Measurements of a run: `events` counts acknowledged changes, and `duplicates` counts calls repeated after a receiver
 * had accepted the delivery.
 */
export interface KillFigures {
  kills: number
  events: number
  deliveries: number
  duplicates: number
}

const endpoints = 3
const clients = 4

/** Starts a receiver that fails three in ten calls, and records the number and bodies of the others by message id. */
async function receiver(random: () => number) {
  const taken = new Map<string, { bodies: Set<string>; times: number; product: number }>()
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray().catch(() => [])).toString()
    if (random() < 0.3) return void response.writeHead(500).end()
    const id = String(request.headers['webhook-id'])
    const entry = taken.get(id) ?? { bodies: new Set<string>(), times: 0, product: JSON.parse(body).id as number }
    entry.bodies.add(body)
    entry.times += 1
    taken.set(id, entry)
    response.writeHead(204).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const close = () => {
    server.close()
    server.closeAllConnections()
  }
  return { url: `http://127.0.0.1:${port}/hook`, taken, close }
}

/**
 * Kills the service (kill -9) at random moments while products are created and their events are sent. Asserts that every
 * acknowledged change reaches every endpoint, and that repeated deliveries have the same id and bytes (P4, P5, F-KILL).
 */
export async function killRun(place: Place, { kills, seed, say }: KillRun): Promise<KillFigures> {
  const random = sequence(seed)
  const receivers = await Promise.all(Array.from({ length: endpoints }, () => receiver(random)))
  const service = await realService({
    DATABASE_URL: place.url,
    PLINTH_WEBHOOK_SCHEDULE: '0,0.3,0.3,0.3,0.5,0.5,0.5,1,1,1,1,1,1,1,1',
    PLINTH_WEBHOOK_TIMEOUT: '1',
    PLINTH_WEBHOOK_RATE: '0',
  })
  try {
    await service.start()
    for (const { url } of receivers) {
      const answer = await service.call('POST', '/api/webhooks', {
        body: { event: 'product.created', callbackUrl: url },
      })
      assert.equal(answer.status, 201, answer.text)
    }
    const acknowledged: number[] = []
    for (let life = 0; life < kills; life++) {
      if (life > 0) await service.start()
      acknowledged.push(...(await runUntilKilled(service, random)))
    }
    await service.start()
    say(`${kills} kills (seed ${seed}): ${acknowledged.length} events were acknowledged`)
    assert.ok(acknowledged.length >= kills, 'too few events')
    for (const { taken } of receivers) {
      await eventually('every event arrives', async () => {
        const delivered = new Set([...taken.values()].map(({ product }) => product))
        return acknowledged.every((product) => delivered.has(product))
      })
    }
    const entries = receivers.flatMap(({ taken }) => [...taken.values()])
    assert.deepEqual(
      entries.filter(({ bodies }) => bodies.size !== 1),
      [],
    )
    const duplicates = entries.reduce((sum, { times }) => sum + times - 1, 0)
    return { kills, events: acknowledged.length, deliveries: entries.length, duplicates }
  } finally {
    await service.remove()
    for (const { close } of receivers) close()
  }
}

/** Runs the service once: creates products until the service is killed; returns the acknowledged products. */
async function runUntilKilled(service: RealService, random: () => number): Promise<number[]> {
  const acknowledged: number[] = []
  let alive = true
  const client = async () => {
    while (alive) {
      // A request that the kill interrupts is not acknowledged.
      const answer = await service
        .call('POST', '/products', { body: { name: 'acknowledged', price: 1 } })
        .catch(() => undefined)
      if (answer?.status === 201) acknowledged.push(answer.json().id)
      await pause(5)
    }
  }
  const running = Array.from({ length: clients }, client)
  const enough = 1 + Math.floor(random() * 30)
  await eventually(`${enough} answers`, async () => acknowledged.length >= enough)
  await pause(random() * 60)
  const killed = service.kill('SIGKILL')
  alive = false
  await Promise.all([killed, ...running])
  return acknowledged
}
