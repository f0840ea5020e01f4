import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, createReadStream, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench, Measurement } from './bench.ts'
import { countProducts } from './fill.ts'
import { pinned, serverCore } from './machine.ts'
import { withRatio } from './measured.ts'
import { forgetPeak, memoryOf } from './memory.ts'
import { meterOf } from './meter.ts'
import { quietest } from './quietest.ts'
import type { Service } from './service.ts'
import { answerOf, ask } from './target.ts'

const name = 'report'
const title = 'CSV report of products'
const pollMs = 50
const limitMs = 300_000

/** The report row: rows per second of an export, against `sqlite3 -csv` on the same file. */
export const reportRow: Measurement = { name, measure }

interface Task {
  taskId: string
  status: string
  startedAt: string
  completedAt: string
  rowCount: number
}

async function measure(bench: Bench) {
  const { options, service, say } = bench
  if (spawnSync('sqlite3', ['-version']).status !== 0) return { name, title, skipped: 'sqlite3 is not installed' }
  const count = countProducts(service.databaseFile)
  say(`${title}: ${count.toLocaleString('en')} rows`)
  forgetPeak(service.pid)
  const rounds = []
  for (let round = 1; round <= options.rounds; round++) {
    const undisturbed = (side: string, measureOnce: typeof shellExport) =>
      quietest(async () => {
        const exported = await measureOnce(bench, count)
        say(`  ${round} ${side.padEnd(9)} ${sideLine(exported)}`)
        return exported
      })
    rounds.push({
      reference: await undisturbed('reference', shellExport),
      service: await undisturbed('service', ({ service }, rows) => serviceExport(service, 'csv', rows)),
    })
  }
  const about = { name, title, floor: 0.7, unit: 'rows' as const, reference: 'sqlite3 -csv' }
  return withRatio({ ...about, rounds, memory: memoryOf(service.pid) })
}

/** Rows per second of the export itself, and from asking for it to having been told. */
export interface Exported extends ReturnType<ReturnType<typeof meterOf>['read']> {
  perSecond: number
  wholePerSecond: number
  [more: string]: unknown
}

const thousands = (value: number) => Math.round(value).toLocaleString('en').padStart(9)
const percent = (share: number) => `${Math.round(share * 100)} %`.padStart(5)

/** What a line of progress shows of one export. */
export const sideLine = ({ perSecond, wholePerSecond, serverShare, othersShare, serverUs }: Exported) =>
  `${thousands(perSecond)} rows/s   ${thousands(wholePerSecond)} from order to end   ` +
  `process ${percent(serverShare)} (${serverUs.toFixed(2)} µs each, others ${percent(othersShare)})`

/** The same columns by the command line, from the start of the process to its end. */
async function shellExport({ place, pin, service }: Bench, count: number): Promise<Exported> {
  const file = join(place.folder, 'reference.csv')
  const output = openSync(file, 'w')
  const query = 'select id, name, price, created_at, updated_at from products order by id'
  const command = ['sqlite3', '-readonly', '-csv', '-header', service.databaseFile, query]
  const start = performance.now()
  const child = place.start(pinned(pin, serverCore, command), { stdio: ['ignore', output, 'inherit'] })
  const meter = meterOf(child.pid as number)
  const looking = setInterval(meter.look, 10)
  const [code] = await once(child, 'exit')
  const perSecond = (count * 1_000) / (performance.now() - start)
  clearInterval(looking)
  closeSync(output)
  if (code !== 0) throw new Error(`sqlite3 ended with ${code}`)
  const used = meter.read(count)
  await expectLines(createReadStream(file), count + 1)
  rmSync(file)
  return { perSecond, wholePerSecond: perSecond, ...used }
}

/** One task from POST to completed; its result is downloaded, and its lines are counted where it has any. */
export async function serviceExport(service: Service, format: string, count: number): Promise<Exported> {
  const headers = { authorization: `Bearer ${await service.token()}` }
  const json = { ...headers, 'content-type': 'application/json' }
  const body = JSON.stringify({ reportType: 'products', format })
  const meter = meterOf(service.pid)
  const start = performance.now()
  const accepted = await answerOf(service, 202, { method: 'POST', path: '/api/reports', headers: json, body })
  const task = await untilCompleted(service, headers, JSON.parse(accepted.body) as Task)
  const wholeMs = performance.now() - start
  meter.look()
  const used = meter.read(count)
  const download = await ask(service, { method: 'GET', path: `/api/reports/${task.taskId}/download`, headers })
  if (download.statusCode !== 200) throw new Error(`The download was answered with ${download.statusCode}`)
  if (format === 'xlsx') await finished(download.resume())
  else await expectLines(download, format === 'csv' ? count + 1 : count)
  if (task.rowCount !== count) throw new Error(`The report has ${task.rowCount} rows instead of ${count}`)
  const ms = Date.parse(task.completedAt) - Date.parse(task.startedAt)
  return { perSecond: (count * 1_000) / ms, wholePerSecond: (count * 1_000) / wholeMs, ...used }
}

async function untilCompleted(service: Service, headers: Record<string, string>, { taskId }: Task) {
  for (let waited = 0; waited < limitMs; waited += pollMs) {
    await sleep(pollMs)
    const { body } = await answerOf(service, 200, { method: 'GET', path: `/api/reports/${taskId}/status`, headers })
    const task = JSON.parse(body) as Task
    if (task.status === 'completed') return task
    if (task.status === 'failed') throw new Error(`The report failed: ${body}`)
  }
  throw new Error('The report took too long')
}

export async function expectLines(stream: AsyncIterable<Buffer>, expected: number): Promise<void> {
  let lines = 0
  for await (const chunk of stream) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
  }
  if (lines !== expected) throw new Error(`The file has ${lines} lines instead of ${expected}`)
}
