import { parseArgs } from 'node:util'
import type { LoadResult } from './load-order.ts'
import { canPin } from './machine.ts'
import { forgetPeak, memoryOf } from './memory.ts'
import { readOptions } from './options.ts'
import { quietest } from './quietest.ts'
import { type RequestRow, rows, runOnce } from './requests.ts'
import { type Service, startService } from './service.ts'
import { openWorkplace } from './workplace.ts'

/**
 * Compares flags of Node.js for the service: one service for each set of flags, measured in turn in each round, so that what
 * else the machine does hits all of them. Prints the medians of requests per second and of CPU time per request, and the most
 * memory that each service took.
 *
 *   node bench/compare-flags.ts [--rounds N] [--seconds N] [--rows N] [--only ROW] -- 'flags of one' 'flags of another' ''
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    rows: { type: 'string' },
    only: { type: 'string' },
  },
})
const options = readOptions(Object.entries(values).flatMap(([name, value]) => [`--${name}`, `${value}`]))
if (options === null || positionals.length === 0) throw new Error('Name the flags to compare, each set as one argument')

const names = ['get', 'get-random', 'mixed', 'create']
const [place, pin, chosen] = [openWorkplace(), canPin(), options]

/** One set of flags, its service, and what was measured of the row at hand. */
interface Variant {
  flags: string
  service: Service
  results: LoadResult[]
}

try {
  const variants: Variant[] = []
  for (const [at, flags] of positionals.entries()) {
    const special = { name: `flags-${at}`, flags: flags.split(' ').filter((flag) => flag !== '') }
    variants.push({ flags, service: await startService(place, chosen, pin, special), results: [] })
  }
  const wanted = chosen.only === null ? names : [chosen.only]
  for (const row of rows.filter(({ name }) => wanted.includes(name))) await compare(row, variants)
} finally {
  await place.clear()
}

async function compare(row: RequestRow, variants: Variant[]): Promise<void> {
  const run = ({ service }: Variant, seconds: number) =>
    runOnce({ options: chosen, place, pin, service }, row, service, seconds)
  for (const variant of variants) {
    forgetPeak(variant.service.pid)
    variant.results = []
    // Until its code is compiled and every row is cached.
    await run(variant, 5 * chosen.seconds)
  }
  for (let round = 0; round < chosen.rounds; round++) {
    for (const variant of variants) variant.results.push(await quietest(() => run(variant, chosen.seconds)))
  }
  console.log(row.title)
  for (const variant of variants) console.log(`  ${line(variant)}`)
}

function line({ flags, service, results }: Variant): string {
  const of = (figure: 'perSecond' | 'serverUs') => median(results.map((result) => result[figure]))
  const figures = `${Math.round(of('perSecond'))}/s, ${of('serverUs').toFixed(1)} µs each`
  return `${figures}, ${memoryOf(service.pid).peakMiB.toFixed(0)} MiB at most: ${flags || 'no flags'}`
}

function median(values: number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN
}
