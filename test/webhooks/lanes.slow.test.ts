import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { Database } from '../../src/storage/database.ts'
import type { OutboundPost } from '../../src/webhooks/dispatch/http-client.ts'
import { claimDue } from '../../src/webhooks/queue/claim.ts'
import { defaultEndpointLimits, endpointQueueId, grant, nextHealth } from '../../src/webhooks/queue/endpoint-queue.ts'
import { slotsOf } from '../../src/webhooks/queue/shares.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { batch, dispatching, newOwner, outcomes, steps } from '../support/webhooks.ts'

const { failed, delivered } = outcomes
const now = Date.parse('2026-03-01T12:00:00.000Z')
const leaseMs = 30_000
const well = { failures: 0, openUntil: null, recent: [], inFlight: 0, waiting: 100 }

describe('grant', () => {
  it('allows four calls in flight, and no more until their lease expires', () => {
    assert.equal(grant(well, now, defaultEndpointLimits, leaseMs).count, 4)
    const { count, floorMs } = grant({ ...well, inFlight: 4 }, now, defaultEndpointLimits, leaseMs)
    assert.deepEqual([count, floorMs], [0, now + leaseMs])
  })

  it('allows at most ten calls to start in any second, regardless of when deliveries arrive', () => {
    const steps = fc.array(fc.record({ pauseMs: fc.nat(400), waiting: fc.nat(12), inFlight: fc.nat(4) }), {
      minLength: 20,
    })
    fc.assert(
      fc.property(steps, (looks) => {
        const begun: number[] = []
        let recent: readonly number[] = []
        let at = now
        for (const { pauseMs, waiting, inFlight } of looks) {
          at += pauseMs
          const admitted = grant({ ...well, recent, waiting, inFlight }, at, defaultEndpointLimits, leaseMs)
          begun.push(...Array<number>(admitted.count).fill(at))
          recent = admitted.recent
        }
        return begun.every((from) => begun.filter((one) => one >= from && one < from + 1_000).length <= 10)
      }),
    )
  })

  it('allows no eleventh call until one second after the first of the last ten calls', () => {
    const recent = Array.from({ length: 10 }, (_, n) => now - 900 + n)
    const { count, floorMs } = grant({ ...well, recent }, now, defaultEndpointLimits, leaseMs)
    assert.deepEqual([count, floorMs], [0, now + 100])
  })

  it('allows only one call, after a pause, to an endpoint that has failed ten times', () => {
    const openUntil = new Date(now + 3_000).toISOString()
    const open = { ...well, failures: 10, openUntil }
    assert.deepEqual(grant(open, now, defaultEndpointLimits, leaseMs), { count: 0, floorMs: now + 3_000, recent: [] })
    assert.equal(grant(open, now + 3_000, defaultEndpointLimits, leaseMs).count, 1)
    assert.equal(grant({ ...open, inFlight: 1 }, now + 3_000, defaultEndpointLimits, leaseMs).count, 0)
  })

  it('never blocks an endpoint for longer than the maximum pause, even if the clock is set back', () => {
    const openUntil = new Date(now + 3_600_000).toISOString()
    const { floorMs } = grant(
      { ...well, failures: 10, openUntil, recent: [now + 3_600_000] },
      now,
      defaultEndpointLimits,
      leaseMs,
    )
    assert.equal(floorMs, now + 60_000)
    assert.equal(
      grant({ ...well, recent: Array(10).fill(now + 3_600_000) }, now, defaultEndpointLimits, leaseMs).count,
      4,
    )
  })

  it('limits only the calls in flight if there is no rate limit', () => {
    const limits = { ...defaultEndpointLimits, inFlight: 50, perSecond: Number.POSITIVE_INFINITY }
    assert.deepEqual(grant(well, now, limits, leaseMs), { count: 50, floorMs: now + leaseMs, recent: [] })
  })
})

describe('nextHealth', () => {
  it('pauses for 5 s after ten consecutive failures, and doubles the pause with each further failure, up to a minute', () => {
    let health = { failures: 0, openUntil: null as string | null }
    const pauses = Array.from({ length: 16 }, () => {
      health = nextHealth(health, false, now, defaultEndpointLimits)
      return health.openUntil === null ? 0 : (Date.parse(health.openUntil) - now) / 1_000
    })
    assert.deepEqual(pauses, [0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 10, 20, 40, 60, 60, 60])
    assert.deepEqual(nextHealth(health, true, now, defaultEndpointLimits), { failures: 0, openUntil: null })
  })
})

describe('endpointQueueId', () => {
  it('identifies the webhook or, for a one-off callback URL, the client and the origin', () => {
    assert.equal(endpointQueueId({ webhookId: 'whk_1', url: 'https://a.test/1' }, 'cli'), 'whk_1')
    const queueId = (url: string, client: string) => endpointQueueId({ webhookId: null, url }, client)
    assert.equal(queueId('https://a.test/1', 'cli'), queueId('HTTPS://A.test:443/2?x', 'cli'))
    assert.notEqual(queueId('https://a.test/1', 'cli'), queueId('https://a.test/1', 'other'))
    assert.notEqual(queueId('https://a.test/1', 'cli'), queueId('https://a.test:8443/1', 'cli'))
  })
})

forEachEngine((engine) => {
  describe('deliveries to an endpoint', () => {
    let db: Database
    const clock = { now }
    const { start, fan, queue } = dispatching(engine, clock, (opened) => {
      db = opened
    })

    /** Adds a webhook with this URL for a new owner, and this many deliveries to it. */
    async function waiting(url: string, count: number) {
      const fixture = steps(db, queue)
      const owner = newOwner()
      const { id: webhookId } = await fixture.subscribe(owner, url)
      const events = await Promise.all(Array.from({ length: count }, () => fixture.emit(owner)))
      await fan(batch(events.map(({ id }) => ({ eventId: id }))))
      const rows = () =>
        db.read.selectFrom('deliveries').selectAll().where('webhookId', '=', webhookId).orderBy('id').execute()
      return { ...fixture, owner, webhookId, rows }
    }

    /** Returns a `post` function whose calls stay in flight until the test resolves them with an outcome. */
    function stalled() {
      const held: ((outcome: typeof failed | typeof delivered) => void)[] = []
      let begun = 0
      const post = (_: OutboundPost) => {
        begun += 1
        const { promise, resolve } = Promise.withResolvers<typeof failed | typeof delivered>()
        held.push(resolve)
        return promise
      }
      return { post, held, begun: () => begun }
    }

    it('are limited to four at a time across two nodes', async () => {
      await waiting('https://one.test/', 9)
      const { post, held, begun } = stalled()
      const nodes = [await start(post), await start(post)]
      await eventually('four are under way', async () => held.length >= 4)
      for (const node of nodes) node.wake()
      await eventually('each node has looked', async () => (await queueId()).every(({ dueAt }) => dueAt !== iso(now)))
      assert.equal(held.length, 4)
      clock.now += 1_500
      for (let n = 0; n < 9; n++) {
        await eventually('one is under way', async () => held.length > 0)
        assert.ok(held.length <= 4)
        held.shift()?.(delivered)
      }
      await Promise.all(nodes.map((node) => node.settled()))
      assert.equal(begun(), 9)
      clock.now = now
    })

    const iso = (ms: number) => new Date(ms).toISOString()
    const queueId = () => db.read.selectFrom('deliveryLanes').selectAll().execute()

    it('are limited to ten per second, and continue in the next second', async () => {
      const { rows } = await waiting('https://fast.test/', 25)
      let calls = 0
      const node = await start(async () => {
        calls += 1
        return delivered
      })
      await node.settled()
      assert.equal(calls, 10)
      clock.now += 999
      node.wake()
      await node.settled()
      assert.equal(calls, 10)
      clock.now += 1
      await node.settled()
      assert.equal(calls, 20)
      clock.now += 1_000
      await node.settled()
      assert.equal(calls, 25)
      assert.ok((await rows()).every(({ status }) => status === 'delivered'))
      clock.now = now
    })

    // SQLite has a single writer, so rows cannot be locked by another transaction.
    if (engine.name === 'postgres')
      it('count toward the rate limit only when claimed; a locked delivery can be claimed once it is unlocked', async () => {
        const { rows, webhookId } = await waiting('https://held.test/', 3)
        const [first] = await rows()
        const [held, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
        const stalled = db.write(async (tx) => {
          await tx
            .updateTable('deliveries')
            .set({ attempts: 0 })
            .where('id', '=', first?.id ?? '')
            .execute()
          held.resolve()
          await end.promise
        })
        await held.promise
        const claim = () =>
          claimDue({ db, limits: { ...defaultEndpointLimits, inFlight: 3 }, leaseMs, slots: slotsOf(100, []) }, now)
        const begun = await claim()
        end.resolve()
        await stalled
        const [state] = (await queueId()).filter((one) => one.lane === webhookId)
        assert.deepEqual([begun.length, state?.dueAt, state?.recent], [2, iso(now), JSON.stringify([now, now])])
        assert.deepEqual(
          (await claim()).map(({ id }) => id),
          [first?.id],
        )
      })

    it('wait after ten failures, with unchanged due times, while single calls probe the endpoint', async () => {
      const { rows } = await waiting('https://dead.test/', 14)
      let response: typeof failed | typeof delivered = failed
      let calls = 0
      const options = { limits: { ...defaultEndpointLimits, perSecond: 1_000 } }
      const node = await start(async () => {
        calls += 1
        return response
      }, options)
      await node.settled()
      // Up to three more calls may have been in flight when the tenth failed.
      assert.ok(calls >= 10 && calls <= 13, String(calls))
      const opened = calls
      const untried = (await rows()).filter(({ attempts }) => attempts === 0)
      assert.ok(untried.length > 0 && untried.every(({ nextAttemptAt }) => nextAttemptAt === iso(now)))
      clock.now += 59_000
      await node.settled()
      assert.equal(calls, opened + 1, 'one finds out')
      response = delivered
      clock.now += 60_000
      await node.settled()
      assert.deepEqual(
        (await rows()).filter(({ status }) => status !== 'delivered'),
        [],
      )
      clock.now = now
    })

    it('are sent within a second (95th percentile) while another endpoint does not respond to 200 deliveries (T-WH-04)', async () => {
      clock.now = Date.now()
      await waiting('https://hole.test/', 200)
      const never = new Promise<never>(() => {})
      const arrived = new Map<string, number>()
      const node = await start(
        async ({ url, headers }) => {
          if (url === 'https://hole.test/') return never
          arrived.set(String(headers['webhook-id']), performance.now())
          return delivered
        },
        { concurrency: 8 },
      )
      const owners = await Promise.all(
        Array.from({ length: 20 }, async (_, n) => {
          const owner = newOwner()
          await steps(db, queue).subscribe(owner, `https://healthy-${n}.test/`)
          return owner
        }),
      )
      const latencies: number[] = []
      for (const owner of owners) {
        const from = performance.now()
        const { id } = await steps(db, queue).emit(owner)
        await fan(batch([{ eventId: id }]))
        node.wake()
        await eventually('it arrives', async () => arrived.has(id))
        latencies.push((arrived.get(id) as number) - from)
      }
      latencies.sort((a, b) => a - b)
      assert.ok((latencies[18] as number) < 1_000, `p95 ${latencies[18]} ms`)
      await node.stop(0)
      clock.now = now
    })

    it('take turns if there are more endpoints than call slots: each endpoint gets one call before any gets two', async () => {
      const urls = Array.from({ length: 30 }, (_, n) => `https://turn-${n}.test/${randomBytes(4).toString('hex')}`)
      const all = await Promise.all(urls.map((url) => waiting(url, 1)))
      const order: string[] = []
      const known = await start(async () => delivered)
      await known.settled()
      await known.stop(0)
      for (const { owner, emit } of all) {
        const events = [await emit(owner), await emit(owner)]
        await fan(batch(events.map(({ id }) => ({ eventId: id }))))
      }
      const node = await start(
        async ({ url }) => {
          order.push(url)
          clock.now += 1
          return delivered
        },
        { concurrency: 3, limits: { ...defaultEndpointLimits, inFlight: 1 } },
      )
      await node.settled()
      assert.equal(order.length, 60)
      assert.equal(new Set(order.slice(0, 30)).size, 30)
      for (const { rows } of all) assert.ok((await rows()).every(({ status }) => status === 'delivered'))
      clock.now = now
    })
  })
})
