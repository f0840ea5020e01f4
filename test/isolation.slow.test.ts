// Runs in its own process: measures the response times of a busy service.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { openSandbox } from '../bench/sandbox.ts'
import { type Scenario, scenarios } from '../scripts/isolation/order.ts'
import { fillLarge, type IsolationResult, isolationRun } from '../scripts/isolation/run.ts'
import { forEachEngine, type Place } from './support/engines.ts'

const rows = ['--books', '--users', '--tasks', '--deliveries', '--audit'].flatMap((table) => [table, '2000'])

/** Scenarios in which the abusive client reads no responses, so it has no outcomes to report. */
const unread: ReadonlySet<Scenario> = new Set(['downloads', 'connections'])

/** A short run of `scripts/isolation.ts` that checks what the second client received, but not how fast. */
forEachEngine((engine) => {
  describe('a client while another client abuses the service', () => {
    const sandbox = openSandbox()
    const results = new Map<string, IsolationResult>()
    let place: Place
    before(async () => {
      place = await engine.place()
      const filled = fillLarge(place.url, sandbox.folder, rows)
      const run = { filled, scenarios, seconds: 0.5, scale: 0.05, say: () => {} }
      for (const result of await isolationRun(sandbox, run)) results.set(result.scenario, result)
    })
    after(async () => {
      await sandbox.clear()
      await place.remove()
    })

    for (const scenario of scenarios) {
      it(`receives every response, delivery and download, and keeps its connections: ${scenario}`, () => {
        const { observation, abuse } = results.get(scenario) as IsolationResult
        const { reads, deliveries, downloads, cut, undelivered, failures } = observation
        assert.deepEqual({ cut, undelivered, failures }, { cut: 0, undelivered: 0, failures: [] })
        assert.ok(reads > 0 && deliveries > 0 && downloads > 0, JSON.stringify(observation))
        const outcomes = Object.keys(abuse)
        if (!unread.has(scenario)) assert.ok(outcomes.length > 0, 'the abusive client got nothing at all')
        assert.ok(!outcomes.includes('500'), outcomes.join(' '))
      })
    }
  })
})
