import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'
import { openQueue } from '../../src/queue/open.ts'
import type { Database } from '../../src/storage/database.ts'
import { localCertificates } from '../../src/tls/certificates.ts'
import { startDispatch } from '../../src/webhooks/dispatch/dispatcher.ts'
import { fanOut } from '../../src/webhooks/dispatch/fan-out.ts'
import { sender } from '../../src/webhooks/dispatch/http-client.ts'
import { defaultEndpointLimits } from '../../src/webhooks/queue/endpoint-queue.ts'
import { nextDue } from '../../src/webhooks/queue/owners.ts'
import { slotsOf } from '../../src/webhooks/queue/shares.ts'
import { webhookKeys } from '../../src/webhooks/secrets.ts'
import { blackHole, type Hostile, healthyReceiver, hostileReceivers } from './hostile.ts'
import { sequence } from './kill.ts'
import { eventually } from './service.ts'
import { newOwner, noRules, seal, steps } from './webhooks.ts'

/** The size and the seed of a run. */
export interface FaultRun {
  events: number
  /**
   * The number of events for healthy endpoints. They are sent one after another while the other endpoints misbehave.
   */
  healthyEvents: number
  seed: number
  say: (line: string) => void
}

/** Measurements of a run. */
export interface FaultFigures {
  events: number
  delivered: number
  /** The 99th percentile of attempts per delivery. */
  attemptsP99: number
  /** The number of calls repeated after an endpoint had acknowledged the delivery with 2xx. */
  duplicates: number
  healthyP95Ms: number
  virtualHours: number
}

const callMs = 400
const schedule = [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]
const healthyEndpoints = 4
const emittedAtOnce = 40
const waitingForHole = 200

/**
 * Sends events to twelve hostile receivers and a black hole through the real queue, fan-out, sender and sockets. The
 * clock runs in real time, but skips idle periods. Asserts the requirements (F-WH) and returns measurements.
 */
export async function faultRun(db: Database, { events, healthyEvents, seed, say }: FaultRun): Promise<FaultFigures> {
  let skewMs = 0
  const now = () => Date.now() + skewMs
  const started = now()
  const errors: unknown[] = []
  const onError = (error: unknown) => void errors.push(error)
  const chance = sequence(seed)
  const folder = mkdtempSync(join(tmpdir(), 'plinth-faults-'))
  const certificates = await bothCertificates(folder)
  const surroundings = { now, random: chance, ...certificates }
  const hostile = await hostileReceivers(surroundings)
  const names = Array.from({ length: healthyEndpoints }, (_, n) => `healthy ${n + 1}`)
  const healthy = await Promise.all(names.map((name) => healthyReceiver(surroundings, name)))
  const hole = await blackHole()

  const policy = { allowHttp: true, allowCidrs: ['127.0.0.0/8', '::1/128'] }
  const made = sender({ policy, timeoutMs: callMs, connectTimeoutMs: callMs, ca: certificates.authority, now })
  const queue = await openQueue({ db, now, random: chance, onError })
  const keys = await webhookKeys(db, seal)
  const dispatch = startDispatch({
    ...{ db, queue, sender: made, sealer: seal, keys, version: 'faults', now, random: randomBytes, jitter: chance },
    ...{ schedule, limits: defaultEndpointLimits, concurrency: 128, leaseMs: 20_000, access: noRules, onError },
  })
  const fan = fanOut({ db, now, random: randomBytes, queue, access: noRules, onError, onAdded: dispatch.wake })
  queue.work('event.fan-out', { together: fan })

  try {
    const fixture = steps(db, queue)
    const endpoints = new Map<Hostile, { owner: ReturnType<typeof newOwner>; secret: string }>()
    for (const one of [...hostile, ...healthy]) {
      const owner = newOwner()
      const { secret } = await fixture.subscribe(owner, one.url)
      endpoints.set(one, { owner, secret })
    }
    const ownerOfHole = newOwner()
    const { id: holeId } = await fixture.subscribe(ownerOfHole, hole.url)
    const emit = (one: Hostile, n: number) => fixture.emit(endpoints.get(one)!.owner, { body: { n, of: one.name } })

    say(`${events} events to ${hostile.length} hostile receivers, ${waitingForHole} to a black hole (seed ${seed})`)
    const sent = new Map<string, Hostile>()
    for (let from = 0; from < events; from += emittedAtOnce) {
      const some = Array.from({ length: Math.min(emittedAtOnce, events - from) }, async (_, n) => {
        const one = hostile[(from + n) % hostile.length] as Hostile
        sent.set((await emit(one, from + n)).id, one)
      })
      await Promise.all(some)
    }
    for (let n = 0; n < waitingForHole; n++) await fixture.emit(ownerOfHole)

    const latencies: number[] = []
    for (let n = 0; n < healthyEvents; n++) {
      const one = healthy[n % healthy.length] as Hostile
      const from = now()
      const { id } = await emit(one, n)
      sent.set(id, one)
      const taken = await eventually(`${one.name} gets event ${n}`, async () =>
        one.taken.find((call) => call.id === id),
      )
      latencies.push(taken.atMs - from)
    }
    const healthyP95Ms = latencies.toSorted((a, b) => a - b)[Math.floor(healthyEvents * 0.95)] ?? 0
    say(`healthy endpoints meanwhile: p95 ${healthyP95Ms} ms`)
    assert.ok(healthyP95Ms <= 2_000, `p95 of healthy endpoints: ${healthyP95Ms} ms`)

    // The black hole has not delayed the other endpoints. Its owner now deletes the webhook.
    await fixture.unsubscribe(ownerOfHole, holeId)
    await untilAllEnded()
    const virtualHours = (now() - started) / 3_600_000
    const figures = { ...(await checked(db, sent, endpoints)), events: sent.size, healthyP95Ms, virtualHours }
    assert.deepEqual(errors, [])
    return figures
  } finally {
    await queue.stop(1_000)
    await dispatch.stop(1_000)
    for (const { close } of [...hostile, ...healthy, hole]) close()
    await made.close()
    rmSync(folder, { recursive: true })
  }

  /** Repeatedly advances the clock to the next due delivery until only deliveries to the black hole are pending. */
  async function untilAllEnded(): Promise<void> {
    for (;;) {
      await eventually('no event is waiting', async () => (await waiting('event')) === 0)
      await dispatch.settled()
      if ((await waiting('delivery')) === 0) return
      const due = await nextDue(db, slotsOf(1, []))
      assert.ok(due !== null, 'something waits, but nothing is due')
      skewMs += Math.max(0, due - now())
      dispatch.wake()
      // Gives the receiver with the untrusted certificate time to notice the new time and replace the certificate.
      await pause(10)
    }
  }

  async function waiting(what: 'event' | 'delivery'): Promise<number> {
    const pending = db.read.selectFrom('deliveries').where('status', '=', 'pending').where('url', '!=', hole.url)
    const unprocessed = db.read
      .selectFrom('events')
      .leftJoin('deliveries', 'deliveries.eventId', 'events.id')
      .where('deliveries.id', 'is', null)
      .where('events.type', '=', 'report.completed')
    const query = what === 'event' ? unprocessed : pending
    const row = await query.select((of) => of.fn.countAll().as('count')).executeTakeFirstOrThrow()
    return Number(row.count)
  }
}

type Endpoints = ReadonlyMap<Hostile, { secret: string }>

/** Asserts that every event was delivered, and that acknowledged calls had the right bytes and valid signatures. */
async function checked(db: Database, sent: ReadonlyMap<string, Hostile>, endpoints: Endpoints) {
  const rows = await db.read
    .selectFrom('deliveries')
    .innerJoin('events', 'events.id', 'deliveries.eventId')
    .select(['eventId', 'deliveries.status', 'deliveries.body', 'attempts'])
    .execute()
  const mine = rows.filter(({ eventId }) => sent.has(eventId))
  const lost = mine.filter(({ status }) => status !== 'delivered').map(({ eventId }) => sent.get(eventId)?.name)
  assert.deepEqual(lost, [])
  assert.equal(mine.length, sent.size)
  let duplicates = 0
  const bodies = new Map(mine.map(({ eventId, body }) => [eventId, body]))
  for (const [one, { secret }] of endpoints) {
    const reader = new Webhook(secret)
    const ids = new Set<string>()
    for (const { id, bytes, headers } of one.taken) {
      if (ids.has(id)) duplicates += 1
      ids.add(id)
      assert.equal(bytes, bodies.get(id))
      // Signs with the timestamp of the call, because only the signature is verified here.
      const at = new Date(Number(headers['webhook-timestamp']) * 1_000)
      assert.ok(String(headers['webhook-signature']).includes(reader.sign(id, at, bytes)))
    }
    const expected = [...sent].filter(([, of]) => of === one).length
    assert.equal(ids.size, expected, one.name)
  }
  const attempts = mine.map((row) => row.attempts).sort((a, b) => a - b)
  const attemptsP99 = attempts[Math.floor(attempts.length * 0.99)] ?? 0
  return { delivered: mine.length, attemptsP99, duplicates }
}

/** Creates two certificates for localhost: one from an authority that the sender trusts, one from an untrusted authority. */
async function bothCertificates(folder: string) {
  const [known, unknown] = await Promise.all(
    ['known', 'unknown'].map((name) => localCertificates(join(folder, name), ['localhost'], Date.now)),
  )
  const pem = ({ key, cert }: { key?: unknown; cert?: unknown }) => ({ key: String(key), cert: String(cert) })
  const authority = readFileSync((known as { authorityFile: string }).authorityFile, 'utf8')
  return { trusted: pem(known as object), untrusted: pem(unknown as object), authority }
}
