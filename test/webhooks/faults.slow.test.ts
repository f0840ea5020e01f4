import { describe, it } from 'node:test'
import { forEachEngine } from '../support/engines.ts'
import { seed } from '../support/kill.ts'
import { faultRun } from '../support/webhook-faults.ts'

forEachEngine((engine) => {
  describe(`events for twelve hostile receivers (seed ${seed}; scripts/webhook-faults.ts runs a longer version)`, () => {
    it('are all delivered, with the same bytes in every attempt, without delaying other endpoints (F-WH, T-SSRF-09)', {
      timeout: 60_000,
    }, async (t) => {
      const db = await engine.database()
      const say = (line: string) => t.diagnostic(line)
      try {
        const figures = await faultRun(db, { events: 60, healthyEvents: 10, seed, say })
        say(JSON.stringify(figures))
      } finally {
        await db.close()
      }
    })
  })
})
