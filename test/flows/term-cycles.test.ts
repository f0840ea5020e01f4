import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isGraceful, termCycles } from '../support/term-cycles.ts'

describe('SIGTERM under load', () => {
  const cases = [
    { tls: true, threads: 1 },
    { tls: false, threads: 1 },
    { tls: false, threads: 4 },
  ]
  for (const { tls, threads } of cases) {
    const transport = tls ? 'TLS' : 'plain HTTP behind a proxy'
    it(`exit code 0, with no lost request and no connection reset, over ${transport} with PLINTH_THREADS=${threads}`, async () => {
      const lines: string[] = []
      const cycles = await termCycles({
        ...{ cycles: 3, tls, perSecond: 200, connections: 20 },
        env: { PLINTH_DRAIN: '1', PLINTH_THREADS: String(threads) },
        ...{ random: Math.random, say: (line) => void lines.push(line) },
      })
      assert.deepEqual(
        cycles.filter((cycle) => !isGraceful(cycle)),
        [],
        lines.join('\n'),
      )
      for (const { answered, last } of cycles) assert.ok(answered > 20 && last > 0, lines.join('\n'))
    })
  }
})
