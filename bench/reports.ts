import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, createReadStream, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench, Measurement } from './bench.ts'
import { memoryOf, meterOf, pinned, resetPeak, serverCore } from './cpu-and-memory.ts'
import { expectResponse, send } from './http.ts'
import { bestRun, withRatio } from './results.ts'
import { countProducts, referenceProgram, type Service, startService } from './service.ts'

const pollMs = 50
const limitMs = 300_000

/** Measures the CSV report in rows per second, compared with `sqlite3 -csv` on the same file. */
export const reportRow: Measurement = { name: 'report', measure }

interface Task {
  taskId: string
  status: string
  startedAt: string
  completedAt: string
  rowCount: number
}

async function measure(bench: Bench) {
  const about = { name: 'report', title: 'CSV report of products', floor: 0.7, reference: 'sqlite3 -csv' }
  if (spawnSync('sqlite3', ['-version']).status !== 0) return { ...about, skipped: 'sqlite3 is not installed' }
  return compareExports(bench, about, countProducts(bench.service.databaseFile), {
    reference: shellExport,
    service: ({ service }, rows) => serviceExport(service, 'csv', rows),
  })
}

/** Exports the same columns with the `sqlite3` command. */
function shellExport(bench: Bench, count: number): Promise<Exported> {
  const query = 'select id, name, price, created_at, updated_at from products order by id'
  const file = bench.service.databaseFile
  return commandExport(bench, ['sqlite3', '-readonly', '-csv', '-header', file, query], count)
}

/**
 * Requests a report, waits until it is completed, and downloads it. Checks the number of rows and, except for XLSX, the
 * number of lines.
 */
async function serviceExport(service: Service, format: string, count: number): Promise<Exported> {
  const headers = { authorization: `Bearer ${await service.token()}` }
  const json = { ...headers, 'content-type': 'application/json' }
  const body = JSON.stringify({ reportType: 'products', format })
  const meter = meterOf(service.pid)
  const start = performance.now()
  const accepted = await expectResponse(service, 202, { method: 'POST', path: '/api/reports', headers: json, body })
  const task = await untilCompleted(service, headers, JSON.parse(accepted.body) as Task)
  const totalMs = performance.now() - start
  meter.sample()
  const used = meter.read(count)
  const download = await send(service, { method: 'GET', path: `/api/reports/${task.taskId}/download`, headers })
  if (download.statusCode !== 200) throw new Error(`The download returned ${download.statusCode}`)
  if (format === 'xlsx') await finished(download.resume())
  else await expectLines(download, format === 'csv' ? count + 1 : count)
  if (task.rowCount !== count) throw new Error(`The report has ${task.rowCount} rows instead of ${count}`)
  const ms = Date.parse(task.completedAt) - Date.parse(task.startedAt)
  return { perSecond: (count * 1_000) / ms, totalPerSecond: (count * 1_000) / totalMs, ...used }
}

async function untilCompleted(service: Service, headers: Record<string, string>, { taskId }: Task) {
  for (let waited = 0; waited < limitMs; waited += pollMs) {
    await sleep(pollMs)
    const { body } = await expectResponse(service, 200, {
      method: 'GET',
      path: `/api/reports/${taskId}/status`,
      headers,
    })
    const task = JSON.parse(body) as Task
    if (task.status === 'completed') return task
    if (task.status === 'failed') throw new Error(`The report failed: ${body}`)
  }
  throw new Error('The report took too long')
}

const aboutNdjson = { name: 'report-ndjson', title: 'NDJSON report of products', floor: 0.5, reference: 'own CSV' }

/** Measures the NDJSON report, compared with the service's own CSV report. */
const ndjson: Measurement = {
  name: 'report-ndjson',
  measure: (bench) =>
    compareExports(bench, aboutNdjson, countProducts(bench.service.databaseFile), {
      reference: ({ service }, count) => serviceExport(service, 'csv', count),
      service: ({ service }, count) => serviceExport(service, 'ndjson', count),
    }),
}

/** Measures the XLSX report, compared with the exceljs streaming writer, if BENCH_EXCELJS is set to the exceljs folder. */
const xlsx: Measurement = {
  name: 'report-xlsx',
  measure: async (bench) => {
    const about = { name: 'report-xlsx', title: 'XLSX report of products', floor: 3, reference: 'exceljs, streaming' }
    if (!process.env.BENCH_EXCELJS) return { ...about, skipped: 'BENCH_EXCELJS is not set to the folder of exceljs' }
    return compareExports(bench, about, countProducts(bench.service.databaseFile), {
      reference: excelExport,
      service: ({ service }, count) => serviceExport(service, 'xlsx', count),
    })
  },
}

export const formatRows: Measurement[] = [ndjson, xlsx]

/** Exports the same columns with exceljs. Measures the time from process start to exit, and prints the peak memory. */
async function excelExport({ sandbox, pin, service, say }: Bench, count: number): Promise<Exported> {
  const file = join(sandbox.folder, 'reference.xlsx')
  const start = performance.now()
  const command = pinned(pin, serverCore, [process.execPath, referenceProgram, 'exceljs', service.databaseFile, file])
  const child = sandbox.start(command, { stdio: ['ignore', 'ignore', 'inherit'] })
  const meter = meterOf(child.pid as number)
  let peakMiB = 0
  const sampling = setInterval(() => {
    meter.sample()
    if (child.exitCode !== null) return
    // If the process has just exited, this is NaN, and the comparison is false.
    const now = memoryOf(child.pid as number).peakMiB
    if (now > peakMiB) peakMiB = now
  }, 50)
  const [code] = await once(child, 'exit')
  clearInterval(sampling)
  if (code !== 0) throw new Error(`exceljs exited with ${code}`)
  const perSecond = (count * 1_000) / (performance.now() - start)
  rmSync(file)
  say(`  exceljs took ${Math.round(peakMiB)} MiB`)
  return { perSecond, totalPerSecond: perSecond, ...meter.read(count), peakMiB }
}

const aboutPostgres = {
  name: 'report-postgres',
  title: 'CSV report of products, PostgreSQL',
  floor: 0.7,
  reference: 'psql, COPY',
}

/** Measures the CSV report on PostgreSQL, compared with COPY in `psql`, if BENCH_DATABASE_URL is set to a server's URL. */
export const postgresRow: Measurement = {
  name: aboutPostgres.name,
  measure: async (bench) => {
    const server = process.env.BENCH_DATABASE_URL
    if (server === undefined) return { ...aboutPostgres, skipped: 'BENCH_DATABASE_URL is not set' }
    if (spawnSync('psql', ['--version']).status !== 0) return { ...aboutPostgres, skipped: 'psql is not installed' }
    const name = `plinth_bench_${process.pid}`
    const url = Object.assign(new URL(server), { pathname: `/${name}` }).href
    psql(server, `create database ${name}`)
    try {
      const service = await startService(bench.sandbox, bench.options, bench.pin, {
        name: 'postgres',
        database: { url, fill: (rows) => fillPostgres(url, rows) },
      })
      const row = await compareExports({ ...bench, service }, aboutPostgres, bench.options.rows, {
        reference: copyExport(url),
        service: ({ service }, rows) => serviceExport(service, 'csv', rows),
      })
      await service.stop()
      return row
    } finally {
      psql(server, `drop database if exists ${name} with (force)`)
    }
  },
}

/** Exports the same columns with COPY in `psql`. */
const copyExport =
  (url: string): Export =>
  (bench, count) => {
    const query = 'select id, name, price, created_at, updated_at from products order by id'
    return commandExport(bench, ['psql', url, '-qc', `copy (${query}) to stdout (format csv, header)`], count)
  }

function fillPostgres(url: string, rows: number): void {
  psql(
    url,
    `insert into products (name, name_key, price, revision, created_at, updated_at)
     select name, lower(name), (i::bigint * 7919 % 90000 + 10001) / 100.0, 1, at, at
     from (select i, 'Brass' || case when i % 10 = 0 then ', old' else '' end || ' anvil ' || lpad(i::text, 7, '0') as name,
       to_char(timestamp '2024-01-01' + i * interval '1 second', 'YYYY-MM-DD"T"HH24:MI:SS.000"Z"') as at
       from generate_series(1, ${rows}) i) rows`,
  )
  psql(url, 'vacuum analyze products')
}

function psql(url: string, statement: string): void {
  const { status, stderr } = spawnSync('psql', [url, '-qc', statement], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`psql failed: ${stderr}`)
}

/**
 * `perSecond` is the rate of the export itself. For `totalPerSecond`, the time also includes the request, and the
 * polling until the report is completed.
 */
interface Exported extends ReturnType<ReturnType<typeof meterOf>['read']> {
  perSecond: number
  totalPerSecond: number
  [more: string]: unknown
}

/** Exports `count` rows once. */
type Export = (bench: Bench, count: number) => Promise<Exported>

interface About {
  name: string
  title: string
  floor: number
  reference: string
}

/** Measures one row of the results table: runs both exports alternately. */
async function compareExports(bench: Bench, about: About, count: number, sides: Record<Side, Export>) {
  const { options, service, say } = bench
  say(`${about.title}: ${count.toLocaleString('en')} rows`)
  resetPeak(service.pid)
  const measured = (round: number, side: Side) =>
    bestRun(async () => {
      const exported = await sides[side](bench, count)
      say(`  ${round} ${side.padEnd(9)} ${sideLine(exported)}`)
      return exported
    })
  const rounds = []
  for (let round = 1; round <= options.rounds; round++) {
    rounds.push({ reference: await measured(round, 'reference'), service: await measured(round, 'service') })
  }
  return withRatio({ ...about, unit: 'rows' as const, rounds, memory: memoryOf(service.pid) })
}

type Side = 'reference' | 'service'

/** Measures a command that writes a CSV header and rows to standard output. */
async function commandExport({ sandbox, pin }: Bench, command: string[], count: number): Promise<Exported> {
  const file = join(sandbox.folder, 'reference.csv')
  const output = openSync(file, 'w')
  const start = performance.now()
  const child = sandbox.start(pinned(pin, serverCore, command), { stdio: ['ignore', output, 'inherit'] })
  const meter = meterOf(child.pid as number)
  const sampling = setInterval(meter.sample, 10)
  const [code] = await once(child, 'exit')
  const perSecond = (count * 1_000) / (performance.now() - start)
  clearInterval(sampling)
  closeSync(output)
  if (code !== 0) throw new Error(`${command[0]} exited with ${code}`)
  const used = meter.read(count)
  await expectLines(createReadStream(file), count + 1)
  rmSync(file)
  return { perSecond, totalPerSecond: perSecond, ...used }
}

async function expectLines(stream: AsyncIterable<Buffer>, expected: number): Promise<void> {
  let lines = 0
  for await (const chunk of stream) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
  }
  if (lines !== expected) throw new Error(`The file has ${lines} lines instead of ${expected}`)
}

const thousands = (value: number) => Math.round(value).toLocaleString('en').padStart(9)
const percent = (share: number) => `${Math.round(share * 100)} %`.padStart(5)

const sideLine = ({ perSecond, totalPerSecond, serverShare, othersShare, serverUs }: Exported) =>
  `${thousands(perSecond)} rows/s   ${thousands(totalPerSecond)} in total   ` +
  `process ${percent(serverShare)} (${serverUs.toFixed(2)} µs each, others ${percent(othersShare)})`
