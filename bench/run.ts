import { backgroundRow } from './background.ts'
import { type Bench, type Measurement, type Options, readOptions, usage } from './bench.ts'
import { canPin, memoryOf } from './cpu-and-memory.ts'
import { hookRow } from './hooks.ts'
import { expectResponse } from './http.ts'
import { greedyRow, overloadRow } from './limits.ts'
import { ownListRows } from './own-lists.ts'
import { peerRows } from './peers.ts'
import { formatRows, postgresRow, reportRow } from './reports.ts'
import { countedRows, limits, requestRows } from './requests.ts'
import { conclude, type Row } from './results.ts'
import { openSandbox, type Sandbox } from './sandbox.ts'
import { nameOf, priceOf, readPages, startReference, startService } from './service.ts'
import { startRow } from './start.ts'
import { streamRows } from './streams.ts'
import { threadRows } from './threads.ts'
import { cachedTokenRow, tokenRow } from './tokens.ts'
import { webhooksRow } from './webhooks.ts'

const [get, notModified, create, getRandom, mixed, mixedCreate, ...lists] = requestRows as [
  ...[Measurement, Measurement, Measurement, Measurement, Measurement, Measurement],
  ...Measurement[],
]
/** Table rows with writes come after the read-only rows. */
const reads = [get, getRandom, notModified, ...lists, tokenRow, cachedTokenRow]
const measurements: Measurement[] = [
  ...reads,
  reportRow,
  postgresRow,
  ...formatRows,
  webhooksRow,
  ...ownListRows,
  mixed,
  mixedCreate,
  create,
  hookRow,
  ...streamRows,
  ...countedRows,
  greedyRow,
  overloadRow,
  backgroundRow,
  ...threadRows,
  startRow,
  ...peerRows,
]

const say = (line: string) => console.log(line)

try {
  const options = readOptions(process.argv.slice(2))
  if (options === null) say(usage)
  else process.exitCode = await run(options)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 2
}

/** Measures the selected table rows, prints the results and writes them to a file; returns the exit code. */
async function run(options: Options): Promise<number> {
  const chosen = choose(options.only)
  const names = measurements.map(({ name }) => name).join(', ')
  if (chosen.length === 0) throw new Error(`--only ${options.only}: expected one of ${names}`)
  const started = new Date()
  const sandbox = openSandbox()
  clearOnSignals(sandbox)
  try {
    const bench = await prepare(options, sandbox)
    const rows: Row[] = []
    for (const { measure } of chosen) rows.push(...[await measure(bench)].flat())
    await bench.service.stop()
    return conclude(bench, started, rows)
  } finally {
    await sandbox.clear()
  }
}

/** Returns the measurement of this name or, without one, those whose names start with it and a hyphen. */
function choose(only: string | null): Measurement[] {
  if (only === null) return measurements.filter(({ isOptional }) => !isOptional)
  const exact = measurements.filter(({ name }) => name === only)
  return exact.length > 0 ? exact : measurements.filter(({ name }) => name.startsWith(`${only}-`))
}

/** Stops the servers and removes the folder on Ctrl-C and SIGTERM. */
function clearOnSignals(sandbox: Sandbox): void {
  const end = (code: number) => () => void sandbox.clear().finally(() => process.exit(code))
  process.once('SIGINT', end(130)).once('SIGTERM', end(143))
}

async function prepare(options: Options, sandbox: Sandbox): Promise<Bench> {
  const pin = canPin()
  say(introduction(options, pin))
  say(`Filling a database with ${options.rows.toLocaleString('en')} products and starting both servers`)
  const service = await startService(sandbox, options, pin)
  const start = memoryOf(service.pid)
  const headers = { authorization: `Bearer ${await service.token()}` }
  const middle = Math.ceil(options.rows / 2)
  const { body: read } = await expectResponse(service, 200, { method: 'GET', path: `/products/${middle}`, headers })
  const pages = await readPages(service, headers, limits)
  const json = { ...headers, 'content-type': 'application/json' }
  const product = JSON.stringify({ name: nameOf(2_000_000), price: priceOf(1) })
  const creation = { method: 'POST', path: '/products', headers: json, body: product }
  const { body: created, headers: createdHeaders } = await expectResponse(service, 201, creation)
  // The report must contain only the generated rows.
  await expectResponse(service, 204, { method: 'DELETE', path: String(createdHeaders.location), headers })
  const reference = await startReference(sandbox, options, pin, service, { read, pages, created })
  return { options, sandbox, pin, service, reference, start, say }
}

function introduction({ tls, connections, seconds, rounds }: Options, pin: boolean): string {
  const transport = tls ? 'HTTPS to both' : 'plain HTTP to both, with X-Forwarded-Proto: https as from a trusted proxy'
  const cores = pin
    ? 'servers on core 0, load generator on core 1'
    : 'NOT PINNED: there is no taskset or no second core'
  return [
    `${transport}; ${connections} connections, ${rounds} rounds of ${seconds} s; ${cores}`,
    'Both receive the same bytes, with an access token; the service writes its access log to a file. Only ratios are meaningful.',
  ].join('\n')
}
