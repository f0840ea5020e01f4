import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Bench, Measurement } from './bench.ts'
import { compareExports, type Exported } from './compare-exports.ts'
import { countProducts } from './fill.ts'
import { pinned, serverCore } from './machine.ts'
import { memoryOf } from './memory.ts'
import { meterOf } from './meter.ts'
import { serviceExport } from './report.ts'

const aboutNdjson = { name: 'report-ndjson', title: 'NDJSON report of products', floor: 0.5, reference: 'own CSV' }

/** NDJSON against the service's own CSV: what the other text format costs more. */
const ndjson: Measurement = {
  name: 'report-ndjson',
  measure: (bench) =>
    compareExports(bench, aboutNdjson, countProducts(bench.service.databaseFile), {
      reference: ({ service }, count) => serviceExport(service, 'csv', count),
      service: ({ service }, count) => serviceExport(service, 'ndjson', count),
    }),
}

const title = 'XLSX report of products'

/** XLSX against the streaming writer of exceljs, which is measured where BENCH_EXCELJS names its folder. */
const xlsx: Measurement = {
  name: 'report-xlsx',
  measure: async (bench) => {
    const name = 'report-xlsx'
    if (!process.env.BENCH_EXCELJS) return { name, title, skipped: 'BENCH_EXCELJS names no folder of exceljs' }
    const about = { name, title, floor: 3, reference: 'exceljs, streaming' }
    return compareExports(bench, about, countProducts(bench.service.databaseFile), {
      reference: excelExport,
      service: ({ service }, count) => serviceExport(service, 'xlsx', count),
    })
  },
}

export const formatRows: Measurement[] = [ndjson, xlsx]

/** The same columns by exceljs, from the start of its process to its end; its peak of memory is told. */
async function excelExport({ place, pin, service, say }: Bench, count: number): Promise<Exported> {
  const file = join(place.folder, 'reference.xlsx')
  const program = resolve(import.meta.dirname, 'exceljs.ts')
  const start = performance.now()
  const command = pinned(pin, serverCore, [process.execPath, program, service.databaseFile, file])
  const child = place.start(command, { stdio: ['ignore', 'ignore', 'inherit'] })
  const meter = meterOf(child.pid as number)
  let peakMiB = 0
  const looking = setInterval(() => {
    meter.look()
    if (child.exitCode !== null) return
    // One that has just ended has no memory any more: not a number, and so not greater.
    const now = memoryOf(child.pid as number).peakMiB
    if (now > peakMiB) peakMiB = now
  }, 50)
  const [code] = await once(child, 'exit')
  clearInterval(looking)
  if (code !== 0) throw new Error(`exceljs ended with ${code}`)
  const perSecond = (count * 1_000) / (performance.now() - start)
  rmSync(file)
  say(`  exceljs took ${Math.round(peakMiB)} MiB`)
  return { perSecond, wholePerSecond: perSecond, ...meter.read(count), peakMiB }
}
