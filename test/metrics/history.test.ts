import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { percentile } from '../../src/metrics/history/history.ts'
import { expireSamples, startSampler } from '../../src/metrics/history/sampler.ts'
import { openMetrics } from '../../src/metrics/metrics.ts'
import { durationBounds } from '../../src/metrics/samples.ts'
import type { Backlog } from '../../src/queue/queue.ts'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { muchLater } from '../support/timers.ts'

const start = Date.parse('2026-03-01T12:00:00.000Z')
const sampleMs = 15_000
const admin = token('admin', 'cli_admin')
const call = { deliveryId: 'dlv_a' }

describe('percentile', () => {
  const counts = (values: Record<number, number>) => [...durationBounds, 99].map((bound) => values[bound] ?? 0)

  it('is interpolated within a bucket of the histogram', () => {
    assert.equal(percentile(counts({ 0.005: 100 }), 0.5), 3.75)
    assert.equal(percentile(counts({ 0.001: 99, 1: 1 }), 0.5), 0.51)
    assert.equal(percentile(counts({ 0.001: 90, 1: 10 }), 0.99), 950)
  })

  it('is the highest bucket bound if the durations exceed it, and null if there are no durations', () => {
    assert.equal(percentile(counts({ 99: 5 }), 0.5), 10_000)
    assert.equal(percentile(counts({}), 0.5), null)
  })
})

forEachEngine((engine) => {
  describe('GET /api/metrics/history', () => {
    let db: Database
    let service: TestApp
    let now = start
    before(async () => {
      db = await engine.database()
      service = await testApp(db, { now: () => now })
    })
    after(async () => {
      await service.app.close()
      await db.close()
      assert.deepEqual(service.faults, [])
    })

    /** Returns a node's sampler and metrics. `respond` records responses in the metrics. */
    const nodeOn = (node: string, backlogs: Backlog[] = [], database = db, onError = assert.fail as () => void) => {
      const clocks = { now: () => now, monotonic: () => now, later: muchLater }
      const metrics = openMetrics({ version: 'test', versions: [], monotonic: clocks.monotonic, ofThread: null })
      const sources = { space: async () => null, tableSizes: async () => null, hasBackups: false, onError }
      metrics.watch({
        ...clocks,
        ...sources,
        db: database,
        queue: { backlog: async () => backlogs, running: () => [] },
      })
      const sampler = startSampler({
        ...clocks,
        db: database,
        node,
        metrics,
        loopDelayMs: () => 0,
        freeBytes: async () => 5_000,
        onError,
      })
      const respond = (status: number, ms = 2, times = 1) => {
        for (let at = 0; at < times; at++) {
          metrics.onResponse({ route: '/products', method: 'GET', status, ms, client: undefined })
        }
      }
      return { metrics, respond, ...sampler }
    }
    const history = async (query: string) => {
      const response = await service.send({ url: `/api/metrics/history${query}`, token: admin })
      assert.equal(response.statusCode, 200, response.body)
      return response.json()
    }
    const at = (ms: number) => new Date(ms).toISOString()

    it('200 with points that sum the counts of all nodes since their previous samples', async () => {
      const waiting: Backlog = { queue: 'report.generate', waiting: 3, dueSinceMs: start - 45_000 }
      const [one, other] = [nodeOn('nod_a', [waiting]), nodeOn('nod_b')]
      one.respond(200, 2, 98)
      one.respond(429)
      other.respond(404, 400)
      other.respond(503)
      other.metrics.onCalled(call, { delivered: true, error: null, durationMs: 9 })
      other.metrics.onCalled(call, { delivered: false, error: 'http 500', durationMs: 9 })
      other.metrics.onUnlogged(7)
      now = start + sampleMs
      await Promise.all([one.sample(), other.sample()])
      one.respond(200)
      now = start + 2 * sampleMs
      await Promise.all([one.sample(), other.sample()])
      await Promise.all([one.close(), other.close()])
      const { points, ...range } = await history(`?from=${at(start)}&to=${at(now)}&step=15`)
      assert.deepEqual(range, { from: at(start), to: at(now), step: 15 })
      const [first, second] = points
      const { loopDelayMs, memoryBytes, p99Ms, ...rest } = first
      assert.ok(loopDelayMs >= 0 && memoryBytes > 1_000_000)
      assert.ok(p99Ms > 2 && p99Ms <= 500)
      assert.deepEqual(rest, {
        ...{ at: at(start), seconds: 15, nodes: 2, succeeded: 98, clientErrors: 1, limited: 1, serverErrors: 1 },
        ...{ unlogged: 7, p50Ms: 1.76, delivered: 1, deliveryFailures: 1, deliveriesWaiting: 0, oldestDeliveryMs: 0 },
        ...{ jobsWaiting: 3, oldestJobMs: 60_000, diskFreeBytes: 5_000 },
      })
      assert.deepEqual([second.at, second.succeeded, second.limited, second.unlogged], [at(start + sampleMs), 1, 0, 0])
      assert.equal(points.length, 2)
    })

    it('200 with summed counts and the worst queue states for longer steps', async () => {
      const { points, step } = await history(`?from=${at(start)}&to=${at(start + 60_000)}&step=60`)
      assert.equal(step, 60)
      assert.equal(points.length, 1)
      const [{ seconds, nodes, succeeded, jobsWaiting, oldestJobMs }] = points
      assert.deepEqual([seconds, nodes, succeeded, jobsWaiting, oldestJobMs], [30, 2, 99, 3, 75_000])
    })

    it('200 without points for times when no node was up, otherwise with the counts of the running nodes', async () => {
      const from = start + 3 * 3_600_000
      const sampled = async (node: string, steps: readonly number[]) => {
        now = from
        const { respond, sample, close } = nodeOn(node)
        for (const step of steps) {
          respond(200)
          now = from + (step + 1) * sampleMs
          await sample()
        }
        await close()
      }
      await sampled('nod_e', [0, 1, 4, 5])
      await sampled('nod_f', [0, 5])
      const rows = async (step: number) => {
        const { points } = await history(`?from=${at(from)}&to=${at(from + 90_000)}&step=${step}`)
        return points.map((point: Record<string, number | string>) => [
          (Date.parse(point.at as string) - from) / sampleMs,
          ...[point.seconds, point.nodes, point.succeeded],
        ])
      }
      assert.deepEqual(await rows(15), [
        ...[
          [0, 15, 2, 2],
          [1, 15, 1, 1],
        ],
        ...[
          [4, 15, 1, 1],
          [5, 15, 2, 2],
        ],
      ])
      assert.deepEqual(await rows(45), [
        [0, 30, 2, 3],
        [3, 30, 2, 3],
      ])
      await db.write((tx) => tx.deleteFrom('metricSamples').where('at', '>', from).execute())
    })

    it('200 with the last hour in 15-second steps by default, and with a day in 600-second steps', async () => {
      now = start + 600_000
      const hour = await history('')
      assert.deepEqual([hour.from, hour.to, hour.step], [at(now - 3_600_000), at(now), 15])
      assert.equal(hour.points.length, 2)
      assert.equal((await history(`?from=${at(now - 86_400_000)}`)).step, 600)
    })

    it('200 without points for a range without samples', async () => {
      const range = `?from=2026-02-01T00:00:00Z&to=2026-02-01T01:00:00Z`
      assert.deepEqual((await history(range)).points, [])
    })

    it('400 for a range or a step that is not allowed', async () => {
      const wrong: [query: string, message: RegExp][] = [
        ['?from=yesterday', /date-time/],
        [`?from=${at(now)}&to=${at(now - 1)}`, /must not be after `to`/],
        ['?from=2026-01-01T00:00:00Z', /at most 25 hours/],
        ['?step=10', /multiple of 15/],
        ['?step=20', /multiple of 15/],
        [`?from=${at(now - 86_400_000)}&step=15`, /must be at least 60 for this range/],
      ]
      for (const [query, message] of wrong) {
        const response = await service.send({ url: `/api/metrics/history${query}`, token: admin })
        assert.equal(response.statusCode, 400, query)
        assert.match(response.json().errors[0].message, message)
      }
    })

    it('403 without the admin scope', async () => {
      assert.equal((await service.send({ url: '/api/metrics/history' })).statusCode, 403)
    })

    it('200 with null for queue states that could not be read, and without a point for a sample that could not be stored', async () => {
      const errors: unknown[] = []
      const closed = await engine.database()
      await closed.close()
      now = start + 7_200_000
      const cut = nodeOn('nod_c', [], { ...closed, write: db.write }, () => void errors.push('read'))
      await cut.sample()
      await cut.close()
      const write: Database['write'] = () => Promise.reject(new Error('down'))
      const failing = nodeOn('nod_d', [], { ...db, write }, () => void errors.push('write'))
      for (const ms of [sampleMs, 2 * sampleMs]) {
        now = start + 7_200_000 + ms
        await failing.sample()
      }
      await failing.close()
      assert.deepEqual(errors, ['read', 'write'])
      const { points } = await history(`?from=${at(start + 7_000_000)}&to=${at(now + 1)}&step=15`)
      assert.deepEqual(
        points.map((point: Record<string, unknown>) => [point.nodes, point.jobsWaiting, point.oldestJobMs]),
        [[1, null, null]],
      )
    })

    it('expireSamples deletes samples that are older than a day', async () => {
      assert.equal(await expireSamples(db, () => start + 86_400_000 + 2 * sampleMs), 2)
      assert.equal(await expireSamples(db, () => start + 86_400_000 + 2 * sampleMs + 1), 2)
    })
  })
})
