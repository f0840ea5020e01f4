import { spawnSync } from 'node:child_process'
import { finished } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench, Measurement } from './bench.ts'
import { commandExport, compareExports, type Exported, expectLines } from './compare-exports.ts'
import { countProducts } from './fill.ts'
import { meterOf } from './meter.ts'
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
  if (spawnSync('sqlite3', ['-version']).status !== 0) return { name, title, skipped: 'sqlite3 is not installed' }
  const about = { name, title, floor: 0.7, reference: 'sqlite3 -csv' }
  return compareExports(bench, about, countProducts(bench.service.databaseFile), {
    reference: shellExport,
    service: ({ service }, rows) => serviceExport(service, 'csv', rows),
  })
}

/** The same columns by the command line. */
function shellExport(bench: Bench, count: number): Promise<Exported> {
  const query = 'select id, name, price, created_at, updated_at from products order by id'
  const file = bench.service.databaseFile
  return commandExport(bench, ['sqlite3', '-readonly', '-csv', '-header', file, query], count)
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
