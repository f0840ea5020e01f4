import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { health } from '../../src/http/server/health.ts'
import { type Mounted, mount, send } from './support.ts'

describe('health', () => {
  let mounted: Mounted
  let checks = 0
  let broken = false
  let isClockUsable = true
  const check = async () => {
    checks++
    if (broken) throw new Error('connect ECONNREFUSED 10.0.0.7:5432')
  }
  const stop = new AbortController()
  before(async () => {
    const options = {
      ...{ check, isClockUsable: () => isClockUsable, stopping: stop.signal },
      now: () => mounted.clock.now,
    }
    mounted = await mount(['errorHandler'], (app) => void app.register(health, options))
  })
  after(() => mounted.app.close())

  it('200 at /livez without checking the store', async () => {
    const answer = await send(mounted, { url: '/livez' })
    assert.equal(answer.statusCode, 200)
    assert.deepEqual(answer.json(), { status: 'ok' })
    assert.equal(checks, 0)
  })

  it('200 at /readyz, with a store check at most once a second (T-RES-07)', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(mounted, { url: '/readyz' })))
    assert.deepEqual([...new Set(answers.map(({ statusCode }) => statusCode))], [200])
    assert.equal(checks, 1)
    mounted.clock.now += 999
    await send(mounted, { url: '/readyz' })
    assert.equal(checks, 1)
    mounted.clock.now += 1
    await send(mounted, { url: '/readyz' })
    assert.equal(checks, 2)
  })

  it('503 at /readyz, with Retry-After and without internals, until the store responds again', async () => {
    broken = true
    mounted.clock.now += 1_000
    for (let time = 0; time < 2; time++) {
      const answer = await send(mounted, { url: '/readyz' })
      assert.equal(answer.statusCode, 503)
      assert.equal(answer.headers['retry-after'], '2')
      assert.doesNotMatch(answer.body, /10\.0|ECONN/)
    }
    assert.equal(checks, 3)
    broken = false
    mounted.clock.now += 1_000
    assert.equal((await send(mounted, { url: '/readyz' })).statusCode, 200)
  })

  it("503 at /readyz, without a store check, until the node's clock is correct again", async () => {
    isClockUsable = false
    const asked = checks
    mounted.clock.now += 1_000
    const answer = await send(mounted, { url: '/readyz' })
    assert.deepEqual([answer.statusCode, answer.headers['retry-after']], [503, '2'])
    assert.match(answer.body, /The clock of this node is wrong/)
    assert.equal(checks, asked)
    assert.equal((await send(mounted, { url: '/livez' })).statusCode, 200)
    isClockUsable = true
    assert.equal((await send(mounted, { url: '/readyz' })).statusCode, 200)
  })

  it('checks the store again at /readyz after the clock was set back', async () => {
    await send(mounted, { url: '/readyz' })
    const asked = checks
    mounted.clock.now -= 3_600_000
    await send(mounted, { url: '/readyz' })
    assert.equal(checks, asked + 1)
  })

  it('503 at /readyz as soon as shutdown begins, even if a 200 is cached; still 200 at /livez', async () => {
    assert.equal((await send(mounted, { url: '/readyz' })).statusCode, 200)
    stop.abort()
    const answer = await send(mounted, { url: '/readyz' })
    assert.deepEqual([answer.statusCode, answer.headers['retry-after']], [503, '2'])
    assert.equal((await send(mounted, { url: '/livez' })).statusCode, 200)
  })
})
