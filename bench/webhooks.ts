import { randomBytes } from 'node:crypto'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { theService } from '../src/audit/chain.ts'
import { recordEvent } from '../src/queue/events.ts'
import { openQueue } from '../src/queue/open.ts'
import { freePort } from '../src/serving/listeners.ts'
import { sealer } from '../src/storage/encryption.ts'
import { newOrderedId } from '../src/storage/ids.ts'
import { openDatabase } from '../src/storage/open.ts'
import { newSecret, signature } from '../src/webhooks/dispatch/sign.ts'
import { insert, newRegistration } from '../src/webhooks/registrations.ts'
import type { Bench, Measurement } from './bench.ts'
import { loadCore, type Memory, memoryOf, meterOf, pinned, serverCore } from './cpu-and-memory.ts'
import { bestRun, withRatio } from './results.ts'
import { environment, profiling, type Sandbox, startReady } from './sandbox.ts'
import { referenceProgram, runToEnd } from './service.ts'

const title = 'signed webhook deliveries, durable'
const plinth = resolve(import.meta.dirname, '../bin/plinth.js')
const endpoints = 64
const connections = 16
const eventsPerSecond = 6_000
const limitMs = 120_000

/**
 * Measures webhook deliveries, from the stored event and job to the recorded outcome; each event goes to one of 64
 * endpoints. The reference is an undici loop that posts the same signed bytes to the same receiver over 16 connections.
 */
export const webhooksRow: Measurement = { name: 'webhooks', measure }

async function measure(bench: Bench) {
  const { options, sandbox, pin, say } = bench
  const count = eventsPerSecond * options.seconds
  const receiver = await startReceiver(sandbox, pin)
  say(`${title}: ${count.toLocaleString('en')} events to ${endpoints} endpoints`)
  const rounds = []
  let memory: Memory = { rssMiB: 0, peakMiB: 0 }
  for (let round = 1; round <= options.rounds; round++) {
    const reference = await bestRun(() => bareLoop(bench, receiver.port, count))
    say(`  ${round} reference ${Math.round(reference.perSecond).toLocaleString('en').padStart(8)}/s`)
    const service = await bestRun(() => deliveries(bench, receiver.port, count))
    say(`  ${round} service   ${Math.round(service.perSecond).toLocaleString('en').padStart(8)}/s`)
    memory = service.memory
    rounds.push({ reference, service })
  }
  await sandbox.stop(receiver.child)
  const about = { name: 'webhooks', title, floor: 0.3, unit: 'deliveries' as const, reference: 'bare undici' }
  return withRatio({ ...about, rounds, memory })
}

async function startReceiver(sandbox: Sandbox, pin: boolean) {
  const port = await freePort()
  const command = pinned(pin, loadCore, [process.execPath, referenceProgram, 'webhook-receiver'])
  const child = await startReady(sandbox, command, environment({ RECEIVER_PORT: String(port) }))
  return { port, child }
}

async function bareLoop({ sandbox, pin }: Bench, port: number, count: number) {
  const command = pinned(pin, serverCore, [process.execPath, referenceProgram, 'undici'])
  const child = sandbox.start(command, { env: environment({}), stdio: ['pipe', 'pipe', 'inherit'] })
  const meter = meterOf(child.pid as number)
  const sampling = setInterval(meter.sample, 10)
  child.stdin?.end(JSON.stringify({ connections, count, calls: sampleCalls(port, endpoints) }))
  const output = await text(child.stdout as NodeJS.ReadableStream)
  clearInterval(sampling)
  const { serverShare, othersShare } = meter.read(count)
  return { ...(JSON.parse(output) as { perSecond: number; serverUs: number }), serverShare, othersShare }
}

/** Fills a database, starts a service on it, and waits until every outcome is recorded. */
async function deliveries({ options, sandbox, pin }: Bench, receiverPort: number, count: number) {
  const dataDir = join(sandbox.folder, `webhooks-${randomBytes(4).toString('hex')}`)
  const port = await freePort()
  const masterKey = randomBytes(32).toString('hex')
  const env = environment({ ...settings(dataDir, port), PLINTH_MASTER_KEY: masterKey })
  await runToEnd(sandbox, [plinth, 'migrate'], env)
  const database = join(dataDir, 'plinth.db')
  await fillWebhooks(database, Buffer.from(masterKey, 'hex'), { port: receiverPort, endpoints, count })
  const serveEnv = { ...env, ...(options.profile && profiling('service')) }
  const command = pinned(pin, serverCore, [plinth, 'serve'])
  const child = sandbox.start(command, { env: serveEnv, stdio: ['ignore', 'ignore', 'inherit'] })
  // Startup and the first tenth of the deliveries are not measured.
  const before = await untilDelivered(database, count / 10, count, child)
  const meter = meterOf(child.pid as number)
  const { delivered, perSecond } = await untilDelivered(database, count, count, child)
  meter.sample()
  const memory = memoryOf(child.pid as number)
  const used = meter.read(delivered - before.delivered)
  await sandbox.stop(child)
  return { perSecond, memory, ...used }
}

async function untilDelivered(database: string, min: number, count: number, { exitCode }: { exitCode: number | null }) {
  const end = performance.now() + limitMs
  for (;;) {
    const found = deliveredSince(database, count)
    if (found.delivered >= min) return found
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

interface WebhookData {
  /** The receiver's port. */
  port: number
  endpoints: number
  /** Number of events, each of which goes to one endpoint. */
  count: number
}

const batch = 1_000
const bodyOf = (n: number) => {
  const taskId = `tsk_${String(n).padStart(22, '0')}`
  return { taskId, status: 'completed', resultUrl: `/api/reports/${taskId}/download` }
}
const urlOf = (port: number, endpoint: number) => `http://127.0.0.1:${port}/hooks/${endpoint}`

/** Registers endpoints, each with a different owner, and records events for these owners as the service does. */
async function fillWebhooks(file: string, masterKey: Buffer, { port, endpoints, count }: WebhookData): Promise<void> {
  const db = await openDatabase(`file:${file}`)
  const now = Date.now
  const queue = await openQueue({ db, now, random: Math.random, onError: (error) => console.error(error) })
  const store = { db, sealer: sealer(masterKey, randomBytes), now, random: randomBytes }
  for (let n = 0; n < endpoints; n++) {
    const caller = { clientId: `cli_${n}`, subject: `cli_${n}`, scopes: new Set<string>() }
    const { row } = newRegistration(store, caller, { event: 'report.completed', callbackUrl: urlOf(port, n) })
    await db.write((tx) => insert(tx, row, store, theService))
  }
  for (let from = 0; from < count; from += batch) {
    const events = Array.from({ length: Math.min(batch, count - from) }, (_, n) => from + n)
    await Promise.all(
      events.map((n) => {
        const owner = { ownerClient: `cli_${n % endpoints}`, ownerSubject: `cli_${n % endpoints}` }
        const createdAt = new Date().toISOString()
        const about = { id: newOrderedId('msg', randomBytes, createdAt), type: 'report.completed', callbackUrl: null }
        const event = { ...about, ...owner, body: bodyOf(n), createdAt }
        return db.write((tx) => recordEvent(tx, queue, event))
      }),
    )
  }
  await queue.stop(1_000)
  await db.close()
}

/** Returns signed calls with the same format and size as the service's. */
function sampleCalls(port: number, endpoints: number) {
  return Array.from({ length: endpoints }, (_, n) => {
    const body = JSON.stringify(bodyOf(n))
    const id = newOrderedId('msg', randomBytes, new Date().toISOString())
    const timestampSeconds = Math.floor(Date.now() / 1_000)
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'Plinth/0.0.0',
      'webhook-id': id,
      'webhook-timestamp': String(timestampSeconds),
      'webhook-signature': signature(
        { secrets: [newSecret(randomBytes)] },
        { id, timestampSeconds, body: Buffer.from(body) },
      ),
      'webhook-event': 'report.completed',
      'webhook-attempt': '1',
    }
    return { url: urlOf(port, n), headers, body }
  })
}

/** Returns the number of recorded deliveries and, once all are recorded, their rate, excluding the first tenth. */
function deliveredSince(file: string, count: number): { delivered: number; perSecond: number } {
  const db = new DatabaseSync(file, { readOnly: true })
  const { delivered } = db.prepare("select count(*) as delivered from deliveries where status = 'delivered'").get() as {
    delivered: number
  }
  if (delivered < count) {
    db.close()
    return { delivered, perSecond: 0 }
  }
  const warm = Math.floor(count / 10)
  const from = db.prepare('select completed_at as at from deliveries order by completed_at limit 1 offset ?').get(warm)
  const to = db.prepare('select max(completed_at) as at from deliveries').get()
  db.close()
  const ms = Date.parse(String(to?.at)) - Date.parse(String(from?.at))
  return { delivered, perSecond: ((count - warm) * 1_000) / ms }
}
