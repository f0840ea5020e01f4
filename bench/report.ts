import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, createReadStream, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench, Measurement } from './bench.ts'
import { countProducts } from './fill.ts'
import { pinned, serverCore } from './machine.ts'
import { withRatio } from './measured.ts'
import { forgetPeak, memoryOf } from './memory.ts'
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
    const reference = await shellExport(bench, count)
    say(`  ${round} reference ${Math.round(reference.perSecond).toLocaleString('en')} rows/s`)
    const exported = await serviceExport(bench, count)
    const whole = Math.round(exported.wholePerSecond).toLocaleString('en')
    say(
      `  ${round} service   ${Math.round(exported.perSecond).toLocaleString('en')} rows/s, ${whole} from POST to seen`,
    )
    rounds.push({ reference, service: exported })
  }
  const about = { name, title, floor: 0.5, unit: 'rows' as const, reference: 'sqlite3 -csv' }
  return withRatio({ ...about, rounds, memory: memoryOf(service.pid) })
}

/** The same columns by the command line, from the start of the process to its end. */
async function shellExport({ place, pin, service }: Bench, count: number) {
  const file = join(place.folder, 'reference.csv')
  const output = openSync(file, 'w')
  const query = 'select id, name, price, created_at, updated_at from products order by id'
  const command = ['sqlite3', '-readonly', '-csv', '-header', service.databaseFile, query]
  const start = performance.now()
  const child = place.start(pinned(pin, serverCore, command), { stdio: ['ignore', output, 'inherit'] })
  const [code] = await once(child, 'exit')
  const ms = performance.now() - start
  closeSync(output)
  if (code !== 0) throw new Error(`sqlite3 ended with ${code}`)
  await expectLines(createReadStream(file), count)
  rmSync(file)
  return { perSecond: (count * 1_000) / ms, ms }
}

/** One task from POST to completed; its result is downloaded and its lines are counted. */
async function serviceExport({ service }: Bench, count: number) {
  const headers = { authorization: `Bearer ${await service.token()}` }
  const order = {
    ...{ method: 'POST', path: '/api/reports', headers: { ...headers, 'content-type': 'application/json' } },
    body: JSON.stringify({ reportType: 'products', format: 'csv' }),
  }
  const start = performance.now()
  const accepted = await answerOf(service, 202, order)
  const task = await untilCompleted(service, headers, JSON.parse(accepted.body) as Task)
  const wholeMs = performance.now() - start
  const ms = Date.parse(task.completedAt) - Date.parse(task.startedAt)
  const download = await ask(service, { method: 'GET', path: `/api/reports/${task.taskId}/download`, headers })
  if (download.statusCode !== 200) throw new Error(`The download was answered with ${download.statusCode}`)
  await expectLines(download, count)
  return { perSecond: (count * 1_000) / ms, ms, wholePerSecond: (count * 1_000) / wholeMs, wholeMs }
}

async function untilCompleted(service: Bench['service'], headers: Record<string, string>, { taskId }: Task) {
  for (let waited = 0; waited < limitMs; waited += pollMs) {
    await sleep(pollMs)
    const { body } = await answerOf(service, 200, { method: 'GET', path: `/api/reports/${taskId}/status`, headers })
    const task = JSON.parse(body) as Task
    if (task.status === 'completed') return task
    if (task.status === 'failed') throw new Error(`The report failed: ${body}`)
  }
  throw new Error('The report took too long')
}

/** A header and one line per row. */
async function expectLines(stream: AsyncIterable<Buffer>, rows: number): Promise<void> {
  let lines = 0
  for await (const chunk of stream) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
  }
  if (lines !== rows + 1) throw new Error(`The CSV has ${lines} lines instead of ${rows + 1}`)
}
