import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, rmSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { memoryOf, resetPeak } from '../bench/cpu-and-memory.ts'
import { expectResponse, proxied, send } from '../bench/http.ts'
import { openSandbox } from '../bench/sandbox.ts'
import { type Service, startService } from '../bench/service.ts'
import { positionalsOr } from './positionals.ts'

const usage = `Creates reports of a small and a large number of users in every format without a size limit, three times each, on a
service of its own, while a client reads users one after another. Checks each file with an independent reader: sqlite3 for
CSV, Python's zipfile and XML parser for XLSX, JSON.parse for the others.

  node scripts/report-size.ts [small [large]]

  small   rows of the small run (100000)
  large   rows of the large run (1000000)
  --help  print this text

The exit code is 1 if a file is incomplete, if memory exceeds 300 MiB or grows by more than 40 MiB with the number of rows,
or if the 99th percentile of the reads more than doubles in the large run. The small run is too short for that comparison.
`

const positionals = positionalsOr(usage)
const [small = 100_000, large = 1_000_000] = positionals.map((text) => {
  const rows = Number(text)
  if (!Number.isSafeInteger(rows) || rows < 1) throw new Error(`${text}: expected a whole number of rows, 1 or more`)
  return rows
})
const maxMiB = 300
const maxGrowthMiB = 40
const maxSlowdown = 2

const sandbox = openSandbox()
const failures: string[] = []
const say = (line: string) => process.stdout.write(`${line}\n`)

/** Exports this many users in every format and returns the service's peak memory in MiB. */
async function measure(rows: number): Promise<number> {
  const options = { rows: 1, tls: false, profile: false } as Parameters<typeof startService>[1]
  const service = await startService(sandbox, options, false, { name: String(rows) })
  addUsers(service.databaseFile, rows)
  const idle = await reads(service, sleep(5_000))
  say(`${rows.toLocaleString('en')} users; reads of one: p99 ${idle.toFixed(2)} ms without other work`)
  resetPeak(service.pid)
  for (const format of ['csv', 'ndjson', 'json', 'xlsx']) await oneFormat(service, format, rows, idle)
  const { peakMiB } = memoryOf(service.pid)
  say(`  peak memory of the service: ${peakMiB.toFixed(0)} MiB`)
  if (peakMiB > maxMiB) failures.push(`${rows} users took ${peakMiB.toFixed(0)} MiB`)
  await service.stop()
  return peakMiB
}

function addUsers(file: string, rows: number): void {
  const db = new DatabaseSync(file)
  db.exec('pragma busy_timeout = 5000')
  db.prepare(
    `with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)
     insert into users (name, name_key, email, email_key, revision, created_at, updated_at)
     select 'User, "' || i || '"', 'user, "' || i || '"', 'u' || i || '@example.com', 'u' || i || '@example.com', 1,
       '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z' from n`,
  ).run(rows)
  db.close()
}

async function oneFormat(service: Service, format: string, rows: number, idleMs: number): Promise<void> {
  const started = performance.now()
  const lastReport = createReports(service, format)
  const p99 = await reads(service, lastReport)
  const { taskId, rowCount } = await lastReport
  const seconds = (performance.now() - started) / 1_000 / exports
  const file = join(sandbox.folder, `users.${format}`)
  const { digest, sha256 } = await download(service, taskId, file)
  const read = await readers[format]?.(file)
  rmSync(file)
  const isComplete = rowCount === rows && read === rows && digest === sha256
  if (!isComplete)
    failures.push(
      `${format}: ${rowCount} rows reported, ${read} read of ${rows}; Repr-Digest ${digest}, file ${sha256}`,
    )
  if (rows === large && p99 > maxSlowdown * idleMs)
    failures.push(`${format}: p99 of reads rose from ${idleMs.toFixed(2)} to ${p99.toFixed(2)} ms`)
  say(
    `  ${format.padEnd(6)} ${seconds.toFixed(1)} s, ${isComplete ? 'complete' : 'INCOMPLETE'}; p99 of reads ${p99.toFixed(2)} ms`,
  )
}

interface Task {
  taskId: string
  status: string
  rowCount: number
}

/**
 * Number of reports per format. A single report takes only a second or two, which is too short to measure the 99th
 * percentile of reads.
 */
const exports = 3

async function createReports(service: Service, format: string): Promise<Task> {
  for (let n = 1; n < exports; n++) await createReport(service, format)
  return createReport(service, format)
}

const bearer = async (service: Service) => ({ authorization: `Bearer ${await service.token()}` })

async function createReport(service: Service, format: string): Promise<Task> {
  const headers = { ...(await bearer(service)), 'content-type': 'application/json' }
  const body = JSON.stringify({ reportType: 'users', format })
  let response = await expectResponse(service, 202, { method: 'POST', path: '/api/reports', headers, body })
  for (;;) {
    const task = JSON.parse(response.body) as Task
    if (task.status === 'completed') return task
    if (task.status === 'failed') throw new Error(`The report failed: ${response.body}`)
    await sleep(100)
    response = await expectResponse(service, 200, {
      method: 'GET',
      path: `/api/reports/${task.taskId}/status`,
      headers,
    })
  }
}

/** Reads users until `until` settles; returns the 99th percentile of the response times in ms. */
async function reads(service: Service, until: Promise<unknown>): Promise<number> {
  const headers = { ...(await bearer(service)), ...proxied(false) }
  const agent = new Agent({ keepAlive: true })
  let over = false
  const end = until.finally(() => {
    over = true
  })
  const times: number[] = []
  for (let id = 1; !over; id = (id % small) + 1) {
    const start = performance.now()
    await new Promise<void>((resolve, reject) => {
      const options = { port: service.port, path: `/users/${id}`, headers, agent }
      get(options, (response) => {
        if (response.statusCode !== 200) reject(new Error(`A read returned ${response.statusCode}`))
        response.resume().once('end', resolve)
      }).once('error', reject)
    })
    times.push(performance.now() - start)
    await sleep(2)
  }
  await end
  agent.destroy()
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] as number
}

async function download(service: Service, taskId: string, file: string) {
  const path = `/api/reports/${taskId}/download`
  const response = await send(service, { method: 'GET', path, headers: await bearer(service) })
  if (response.statusCode !== 200) throw new Error(`The download returned ${response.statusCode}`)
  const hash = createHash('sha256')
  response.on('data', (chunk) => hash.update(chunk))
  await pipeline(response, createWriteStream(file))
  return { digest: String(response.headers['repr-digest']), sha256: `sha-256=:${hash.digest('base64')}:` }
}

/** For each format, a function that counts the rows in a file that have the expected values. */
const readers: Record<string, (file: string) => Promise<number>> = {
  csv: async (file) =>
    Number(
      output('sqlite3', [
        ':memory:',
        `.import --csv ${file} users`,
        `select count(*) from users where email = 'u' || id || '@example.com' and name = 'User, "' || id || '"'`,
      ]),
    ),
  ndjson: (file) => lines(file, (line) => line),
  // Apart from brackets and commas, each line is one row.
  json: (file) => lines(file, (line) => line.replace(/^\[|[\],]+$/g, '')),
  xlsx: async (file) => Number(output('python3', ['-c', countXlsx, file])),
}

async function lines(file: string, rowOf: (line: string) => string): Promise<number> {
  const input = createReadStream(file)
  let count = 0
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    const text = rowOf(line)
    if (text === '') continue
    const { id, email } = JSON.parse(text) as { id: number; email: string }
    if (email === `u${id}@example.com`) count++
  }
  return count
}

const countXlsx = `
import sys, zipfile, xml.etree.ElementTree as tree
rows = 0
with zipfile.ZipFile(sys.argv[1]) as book:
    assert book.testzip() is None
    name = next(n for n in book.namelist() if n.startswith('xl/worksheets/'))
    for _, element in tree.iterparse(book.open(name)):
        if element.tag.endswith('}row'):
            cells = [''.join(c.itertext()) for c in element]
            rows += cells[2] == 'u%s@example.com' % cells[0]
            element.clear()
print(rows)`

function output(command: string, args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1_000_000 })
  if (status !== 0) throw new Error(`${command} failed: ${error?.message ?? stderr}`)
  return stdout.trim()
}

try {
  const peaks = []
  for (const rows of [small, large]) peaks.push(await measure(rows))
  const [before = 0, after = 0] = peaks
  if (after - before > maxGrowthMiB) failures.push(`memory grew by ${(after - before).toFixed(0)} MiB with the rows`)
} finally {
  await sandbox.clear()
}
for (const failure of failures) say(`FAILED  ${failure}`)
process.exitCode = failures.length > 0 ? 1 : 0
