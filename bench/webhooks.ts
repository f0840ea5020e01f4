import { randomBytes } from 'node:crypto'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../src/start.ts'
import type { Bench, Measurement } from './bench.ts'
import { loadCore, pinned, serverCore } from './machine.ts'
import { withRatio } from './measured.ts'
import { type Memory, memoryOf } from './memory.ts'
import { meterOf } from './meter.ts'
import { quietest } from './quietest.ts'
import { runToEnd } from './service.ts'
import { deliveredSince, fillWebhooks, sampleCalls } from './webhook-fill.ts'
import { environment, profiling, startReady, type Workplace } from './workplace.ts'

const title = 'signed webhook deliveries, durable'
const program = (name: string) => resolve(import.meta.dirname, name)
const plinth = resolve(import.meta.dirname, '../bin/plinth.js')
const endpoints = 64
const connections = 16
const eventsPerSecond = 6_000
const limitMs = 120_000

/**
 * The webhook row: from events with their jobs in the database to recorded outcomes, each event to one of 64 endpoints,
 * against a bare undici loop that posts the same signed bytes to the same receiver over 16 connections.
 */
export const webhooksRow: Measurement = { name: 'webhooks', measure }

async function measure(bench: Bench) {
  const { options, place, pin, say } = bench
  const count = eventsPerSecond * options.seconds
  const receiver = await startReceiver(place, pin)
  say(`${title}: ${count.toLocaleString('en')} events to ${endpoints} endpoints`)
  const rounds = []
  let memory: Memory = { rssMiB: 0, peakMiB: 0 }
  for (let round = 1; round <= options.rounds; round++) {
    const reference = await quietest(() => bareLoop(bench, receiver.port, count))
    say(`  ${round} reference ${Math.round(reference.perSecond).toLocaleString('en').padStart(8)}/s`)
    const service = await quietest(() => deliveries(bench, receiver.port, count))
    say(`  ${round} service   ${Math.round(service.perSecond).toLocaleString('en').padStart(8)}/s`)
    memory = service.memory
    rounds.push({ reference, service })
  }
  await place.stop(receiver.child)
  const about = { name: 'webhooks', title, floor: 0.3, unit: 'deliveries' as const, reference: 'bare undici' }
  return withRatio({ ...about, rounds, memory })
}

async function startReceiver(place: Workplace, pin: boolean) {
  const port = await freePort()
  const command = pinned(pin, loadCore, [process.execPath, program('webhook-receiver.ts')])
  const child = await startReady(place, command, environment({ RECEIVER_PORT: String(port) }))
  return { port, child }
}

async function bareLoop({ place, pin }: Bench, port: number, count: number) {
  const command = pinned(pin, serverCore, [process.execPath, program('webhook-posts.ts')])
  const child = place.start(command, { env: environment({}), stdio: ['pipe', 'pipe', 'inherit'] })
  const meter = meterOf(child.pid as number)
  const looking = setInterval(meter.look, 10)
  child.stdin?.end(JSON.stringify({ connections, count, calls: sampleCalls(port, endpoints) }))
  const told = await text(child.stdout as NodeJS.ReadableStream)
  clearInterval(looking)
  return { ...(JSON.parse(told) as { perSecond: number }), ...meter.read(count) }
}

/** Fills a database, starts a service that does nothing but work, and waits until every outcome is recorded. */
async function deliveries({ options, place, pin }: Bench, receiverPort: number, count: number) {
  const dataDir = join(place.folder, `webhooks-${randomBytes(4).toString('hex')}`)
  const port = await freePort()
  const masterKey = randomBytes(32).toString('hex')
  const env = environment({ ...settings(dataDir, port), PLINTH_MASTER_KEY: masterKey })
  await runToEnd(place, [plinth, 'migrate'], env)
  const database = join(dataDir, 'plinth.db')
  await fillWebhooks(database, Buffer.from(masterKey, 'hex'), { port: receiverPort, endpoints, count })
  const started = { ...env, ...(options.profile && profiling('service')) }
  const command = pinned(pin, serverCore, [plinth, 'serve'])
  const child = place.start(command, { env: started, stdio: ['ignore', 'ignore', 'inherit'] })
  // What the start costs is none of the deliveries'.
  const before = await untilDelivered(database, count / 10, count, child)
  const meter = meterOf(child.pid as number)
  const { delivered, perSecond } = await untilDelivered(database, count, count, child)
  meter.look()
  const memory = memoryOf(child.pid as number)
  const used = meter.read(delivered - before.delivered)
  await place.stop(child)
  return { perSecond, memory, ...used }
}

async function untilDelivered(
  database: string,
  least: number,
  count: number,
  { exitCode }: { exitCode: number | null },
) {
  const end = performance.now() + limitMs
  for (;;) {
    const found = deliveredSince(database, count)
    if (found.delivered >= least) return found
    if (exitCode !== null || performance.now() > end) {
      throw new Error(`Only ${found.delivered} of ${count} events were delivered`)
    }
    await sleep(50)
  }
}

const settings = (dataDir: string, port: number): Record<string, string> => ({
  PLINTH_DATA_DIR: dataDir,
  PLINTH_HOST: '127.0.0.1',
  PLINTH_PORT: String(port),
  PLINTH_TLS: 'off',
  PLINTH_TRUSTED_PROXIES: '127.0.0.1',
  PLINTH_WEBHOOK_ALLOW_HTTP: 'true',
  PLINTH_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
  PLINTH_WEBHOOK_RATE: '0',
})
