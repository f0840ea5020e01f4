import { parseArgs } from 'node:util'
import { readOptions } from './bench.ts'
import { canPin, memoryOf, resetPeak } from './cpu-and-memory.ts'
import type { LoadResult } from './load.ts'
import { type RequestRow, rows, runOnce } from './requests.ts'
import { bestRun } from './results.ts'
import { openSandbox } from './sandbox.ts'
import { type Service, startService } from './service.ts'

/**
 * Compares Node.js flags: starts one service per set of flags and measures all services in every round, so that other load
 * on the machine affects them equally. For each service, prints the median requests per second, the median CPU time per
 * request, and the peak memory.
 *
 *   node bench/compare-flags.ts [--rounds N] [--seconds N] [--rows N] [--only ROW] -- '<flags>' '<other flags>' ''
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
if (options === null || positionals.length === 0)
  throw new Error('Pass the flags to compare, each set as one argument after --')

const names = ['get', 'get-random', 'mixed', 'create']
const [sandbox, pin, chosen] = [openSandbox(), canPin(), options]

/** One set of flags, its service, and its results for the current row. */
interface Variant {
  flags: string
  service: Service
  results: LoadResult[]
}

try {
  const variants: Variant[] = []
  for (const [at, flags] of positionals.entries()) {
    const options = { name: `flags-${at}`, flags: flags.split(' ').filter((flag) => flag !== '') }
    variants.push({ flags, service: await startService(sandbox, chosen, pin, options), results: [] })
  }
  const selected = chosen.only === null ? names : [chosen.only]
  for (const row of rows.filter(({ name }) => selected.includes(name))) await compare(row, variants)
} finally {
  await sandbox.clear()
}

async function compare(row: RequestRow, variants: Variant[]): Promise<void> {
  const run = ({ service }: Variant, seconds: number) =>
    runOnce({ options: chosen, sandbox, pin, service }, row, service, seconds)
  for (const variant of variants) {
    resetPeak(variant.service.pid)
    variant.results = []
    // Warms up the JIT compiler and the caches.
    await run(variant, 5 * chosen.seconds)
  }
  for (let round = 0; round < chosen.rounds; round++) {
    for (const variant of variants) variant.results.push(await bestRun(() => run(variant, chosen.seconds)))
  }
  console.log(row.title)
  for (const variant of variants) console.log(`  ${line(variant)}`)
}

function line({ flags, service, results }: Variant): string {
  const of = (figure: 'perSecond' | 'serverUs') => median(results.map((result) => result[figure]))
  const figures = `${Math.round(of('perSecond'))}/s, ${of('serverUs').toFixed(1)} µs each`
  return `${figures}, ${memoryOf(service.pid).peakMiB.toFixed(0)} MiB peak: ${flags || 'no flags'}`
}

function median(values: number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN
}
