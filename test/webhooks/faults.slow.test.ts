import { describe, it } from 'node:test'
import { forEachEngine } from '../support/engines.ts'
import { seed } from '../support/kill.ts'
import { faultRun } from '../support/webhook-faults.ts'

forEachEngine((engine) => {
  describe(`events to twelve hostile receivers (seed ${seed}; scripts/webhook-faults.ts has the long form)`, () => {
    it('all arrive, with the same bytes on each attempt, and delay no other endpoint (F-WH, T-SSRF-09)', {
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
