import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import type { LightMyRequestResponse as Response } from 'fastify'
import type { ApiKeyIdentity } from '../../src/http/policies/authenticate.ts'
import { monthOf } from '../../src/rate-limits/calendar.ts'
import { consumeLocal, isExceeded, remainingOf, secondsLeft, type Window } from '../../src/rate-limits/fixed-window.ts'
import { limitOf } from '../../src/rate-limits/limit.ts'
import { maxWaiting, maxWaitMs, newDelayQueue, reserve, throttle } from '../../src/rate-limits/throttle.ts'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'
import { drivenTimers, until } from '../support/timers.ts'

const seed = process.env.SEED ? Number(process.env.SEED) : 20_261_121
const runs = { seed, numRuns: 300 }

describe('rate-limit and quota windows (T-LIM-01)', () => {
  const steps = fc.array(
    fc.oneof(
      fc.record({ pass: fc.integer({ min: 0, max: 120_000 }) }),
      fc.record({ set: fc.integer({ min: -7_200_000, max: 7_200_000 }) }),
      fc.constant({ call: true as const }),
    ),
    { maxLength: 80, size: 'max' },
  )
  const rate = fc.record({ calls: fc.integer({ min: 1, max: 20 }), seconds: fc.integer({ min: 1, max: 300 }) })

  it(`report at least 0 calls and 1 s left, and a reset time in whole seconds, even if the clock is changed (seed ${seed})`, () => {
    fc.assert(
      fc.property(rate, fc.integer({ min: 0, max: 4_000_000_000_000 }), steps, (given, start, story) => {
        const limit = limitOf('default', given)
        const windows: (Window | undefined)[] = []
        let now = start + 7_200_000
        for (const step of story) {
          if ('pass' in step) now += step.pass
          else if ('set' in step) now = Math.max(0, now + step.set)
          else {
            const window = consumeLocal(windows, limit, now)
            assert.ok(remainingOf(window) >= 0 && remainingOf(window) < limit.calls)
            assert.ok(Number.isSafeInteger(window.resetsAt))
            const wait = secondsLeft(window, now)
            assert.ok(Number.isInteger(wait) && wait >= 1 && wait <= limit.seconds)
            const end = window.resetsAt * 1_000
            assert.ok(end > now && end - now < limit.windowMs + 1_000)
          }
        }
      }),
      runs,
    )
  })

  it(`admit at most as many calls as the limit allows (seed ${seed})`, () => {
    fc.assert(
      fc.property(
        rate,
        fc.array(fc.integer({ min: 0, max: 60_000 }), { maxLength: 120, size: 'max' }),
        (given, gaps) => {
          const limit = limitOf('default', given)
          const windows: (Window | undefined)[] = []
          const passed = new Map<number, number>()
          let now = 1_000_000
          for (const gap of gaps) {
            now += gap
            const window = consumeLocal(windows, limit, now)
            if (!isExceeded(window)) passed.set(window.endsAtMs, (passed.get(window.endsAtMs) ?? 0) + 1)
          }
          for (const count of passed.values()) assert.ok(count <= limit.calls)
        },
      ),
      runs,
    )
  })

  it(`contain the given instant and, for a monthly quota, end when the next month begins (seed ${seed})`, () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4_000_000_000_000 }), (at) => {
        const month = monthOf(at)
        assert.ok(month.startsAtMs <= at && at < month.endsAtMs)
        assert.equal(monthOf(month.endsAtMs).startsAtMs, month.endsAtMs)
        assert.ok(Number.isSafeInteger(month.resetsAt))
        assert.match(month.name, /^\d{4}-\d\d$/)
      }),
      runs,
    )
  })
})

describe('the delay queue', () => {
  const pace = { calls: 20, seconds: 1, burst: 40 }

  it(`preserves the order, and never exceeds the rate, the maximum wait or the maximum length (seed ${seed})`, () => {
    fc.assert(
      fc.property(
        fc.record({
          calls: fc.integer({ min: 1, max: 500 }),
          seconds: fc.integer({ min: 1, max: 3 }),
          burst: fc.integer({ min: 1, max: 600 }),
        }),
        fc.array(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 300, size: 'max' }),
        (given, gaps) => {
          const timers = drivenTimers()
          let now = 0
          const lines = throttle({ monotonic: () => now, later: timers.later })
          const queue = newDelayQueue(given, null)
          const wentOn: number[] = []
          const times: number[] = []
          gaps.forEach((gap, call) => {
            for (let ms = 0; ms < gap % 40; ms++) {
              now++
              timers.pass(1)
            }
            const reservation = reserve(queue, now)
            const goOn = () => {
              wentOn.push(call)
              times.push(now)
            }
            if (reservation === 'free') goOn()
            else if (reservation !== 'full') {
              assert.ok(reservation.dueMs - now <= maxWaitMs)
              lines.wait(queue, reservation.dueMs, goOn)
            }
            assert.ok(queue.waiting.length <= maxWaiting)
          })
          for (let ms = 0; queue.waiting.length > 0; ms++) {
            assert.ok(ms <= maxWaitMs + 2)
            now++
            timers.pass(1)
          }
          assert.deepEqual(
            wentOn,
            wentOn.toSorted((one, other) => one - other),
          )
          // The burst passes first, and then the rate applies. Timers fire up to 1 ms late.
          const most = given.burst + (given.calls / given.seconds) * 1.001 + 1
          for (const from of times) {
            assert.ok(times.filter((at) => at >= from && at < from + 1_000).length <= most)
          }
        },
      ),
      { ...runs, numRuns: 60 },
    )
  })

  it("lets calls pass at the API key's own rate if that rate is higher", () => {
    assert.equal(newDelayQueue(pace, { calls: 6_000, seconds: 60 }).stepMs, 10)
    assert.equal(newDelayQueue(pace, { calls: 60, seconds: 60 }).stepMs, 50)
  })

  it('accepts a call once another leaves the full queue, and lets all waiting calls pass when the service stops', () => {
    const timers = drivenTimers()
    const lines = throttle({ monotonic: () => 0, later: timers.later })
    const queue = newDelayQueue({ calls: 1_000, seconds: 1, burst: 1 }, null)
    const wentOn: number[] = []
    assert.equal(reserve(queue, 0), 'free')
    const leaves = Array.from({ length: maxWaiting }, (_, call) => {
      const reservation = reserve(queue, 0)
      assert.ok(typeof reservation === 'object')
      return lines.wait(queue, reservation.dueMs, () => wentOn.push(call))
    })
    assert.equal(reserve(queue, 0), 'full')
    leaves[7]?.()
    assert.notEqual(reserve(queue, 0), 'full')
    lines.release()
    assert.equal(wentOn.length, maxWaiting - 1)
    assert.ok(!wentOn.includes(7) && timers.pending().length === 0)
  })
})

onSqlite((engine) => {
  describe('a client above its rate', () => {
    let db: Database
    let service: TestApp
    let timers: ReturnType<typeof drivenTimers>
    let key: ApiKeyIdentity | null = null
    before(async () => {
      db = await engine.database()
      timers = drivenTimers()
      const rules = { throttle: { calls: 100, seconds: 1, burst: 5 }, quotas: { requests: 500, reports: null } }
      service = await testApp(db, { prefixes: [''], rules, later: timers.later, readApiKey: () => key })
    })
    after(async () => {
      await service.app.close()
      await db.close()
    })
    const pass = (by: number) => {
      service.clock.now += by
      timers.pass(by)
    }

    it('200 after a delay, in request order, and 429 without using quota when the queue is full (T-RES-05)', async () => {
      const me = { token: token('', 'cli_fast') }
      const answered: number[] = []
      const all: Promise<Response>[] = []
      for (let call = 0; call < 110; call++) {
        const response = service.send({ url: '/products', ...me })
        void response.then(() => answered.push(call))
        all.push(response)
      }
      // Only the calls within the burst, and those that found the queue full, have responses now.
      await until(() => answered.length === 10)
      assert.deepEqual(
        answered.toSorted((one, other) => one - other),
        [0, 1, 2, 3, 4, 105, 106, 107, 108, 109],
      )
      pass(500)
      await until(() => answered.length === 60)
      pass(500)
      await until(() => answered.length === 110)
      const delayed = answered.slice(10)
      assert.deepEqual(
        delayed,
        Array.from({ length: 100 }, (_, at) => at + 5),
      )
      const responses = await Promise.all(all)
      for (const [call, { statusCode, headers, body }] of responses.entries()) {
        const isRefused = call >= 105
        assert.equal(statusCode, isRefused ? 429 : 200)
        if (isRefused) {
          assert.match(body, /^\{"error":"[^"]+"\}$/)
          assert.ok(Number(headers['retry-after']) >= 1)
        }
        const timing = /^throttle;dur=(\d+)$/.exec(String(headers['server-timing'] ?? ''))?.[1]
        assert.equal(timing !== undefined, call >= 5 && call < 105)
        assert.ok(Number(timing ?? 0) <= maxWaitMs)
      }
      const { quotas } = (await service.send({ url: '/api/usage', ...me })).json()
      assert.equal(quotas[0].used, 105)
    })

    it('is delayed according to its API key’s new rate from the first request after the change', async () => {
      const delayedAt = async (rate: string) => {
        key = { id: 'key_changing', rate, quota: null }
        // Empties the queue.
        pass(10_000)
        const from = { url: '/products', scopes: null, headers: { 'x-api-key': 'changing' } }
        const responses = Array.from({ length: 25 }, () => service.send(from))
        await service.send({ url: '/products', token: token('', 'cli_behind') })
        pass(2_000)
        return (await Promise.all(responses)).filter(({ headers }) => headers['server-timing']).length
      }
      const delayed = [await delayedAt('100/1'), await delayedAt('1000/1'), await delayedAt('100/1')]
      assert.deepEqual(delayed, [20, 0, 20])
    })

    it('200 without a delay for other clients', async () => {
      const slow = Array.from({ length: 20 }, () => service.send({ url: '/products', token: token('', 'cli_greedy') }))
      assert.equal((await service.send({ url: '/products', token: token('', 'cli_calm') })).statusCode, 200)
      pass(2_000)
      await Promise.all(slow)
    })
  })
})
