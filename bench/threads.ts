import type { Measurement } from './bench.ts'
import { measure, rows } from './requests.ts'
import { type Measured, medianOf } from './results.ts'
import { startService } from './service.ts'

const threads = 2

/** The measured rows. Each value is the minimum ratio of the rate with several threads to the rate with one thread. */
const measured: Record<string, number> = { 'get-random': 1.4, mixed: 1.4, create: 1.2 }

/**
 * Compares two services that differ only in the number of threads. No process is pinned: wrk, which needs little CPU time,
 * shares the cores with the service.
 */
export const threadRows: Measurement[] = rows
  .filter(({ name }) => name in measured)
  .map((row) => {
    const name = `threads-${row.name}`
    const title = `${row.title}, ${threads} threads`
    return {
      name,
      measure: async (bench) => {
        const [one, several] = [
          await startService(bench.sandbox, bench.options, false, { name: `${name}-1` }),
          await startService(bench.sandbox, bench.options, false, { name: `${name}-${threads}`, threads }),
        ]
        const reference = { ...one, name: 'reference' as const }
        const both = { ...bench, pin: false, useWrk: true, reference, service: several }
        const floor = measured[row.name] as number
        const result = await measure(both, { ...row, name, title, floor, referenceStatus: row.status }, 'one thread')
        await Promise.all([one.stop(), several.stop()])
        bench.say(
          `  ${highestRatio(result).toFixed(2)} at most: if all CPU time of two cores went to these requests and wrk`,
        )
        return result
      },
    }
  })

/**
 * Returns the ratio that two threads would reach if they and wrk together used two cores fully, and needed no more CPU time
 * per request than one thread and wrk.
 */
function highestRatio(row: Measured): number {
  const [perSecond, serverUs, loadShare] = (['perSecond', 'serverUs', 'loadShare'] as const).map((figure) =>
    medianOf(row, 'reference', figure),
  ) as [number, number, number]
  return (threads * 1e6) / (serverUs + (loadShare * 1e6) / perSecond) / perSecond
}
