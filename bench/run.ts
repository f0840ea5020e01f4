import type { Bench, Measurement } from './bench.ts'
import { conclude } from './conclude.ts'
import { nameOf, priceOf } from './fill.ts'
import { greedyRow, overloadRow } from './limits.ts'
import { canPin } from './machine.ts'
import type { Row } from './measured.ts'
import { memoryOf } from './memory.ts'
import { type Options, readOptions, usage } from './options.ts'
import { startReference } from './reference.ts'
import { rememberedRow } from './remembered.ts'
import { reportRow } from './report.ts'
import { formatRows } from './report-formats.ts'
import { postgresRow } from './report-postgres.ts'
import { countedRows, requestRows } from './requests.ts'
import { startService } from './service.ts'
import { answerOf } from './target.ts'
import { tokenRow } from './tokens.ts'
import { webhooksRow } from './webhooks.ts'
import { openWorkplace, type Workplace } from './workplace.ts'

const [get, notModified, list, create, getRandom, mixed] = requestRows as [
  ...[Measurement, Measurement, Measurement],
  ...[Measurement, Measurement, Measurement],
]
/** Those that change rows come behind those that read them; the last start services of their own. */
const reads = [get, getRandom, notModified, list, tokenRow, rememberedRow]
const measurements = [
  ...reads,
  reportRow,
  postgresRow,
  ...formatRows,
  webhooksRow,
  mixed,
  create,
  ...countedRows,
  greedyRow,
  overloadRow,
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

/** Measures, prints, writes; 1 when a floor is missed and that matters. */
async function run(options: Options): Promise<number> {
  const chosen = measurements.filter(({ name }) => options.only === null || options.only === name)
  const names = measurements.map(({ name }) => name).join(', ')
  if (chosen.length === 0) throw new Error(`--only ${options.only}: expected one of ${names}`)
  const started = new Date()
  const place = openWorkplace()
  clearOnSignals(place)
  try {
    const bench = await prepare(options, place)
    const rows: Row[] = []
    for (const { measure } of chosen) rows.push(await measure(bench))
    await bench.service.stop()
    return conclude(bench, started, rows)
  } finally {
    await place.clear()
  }
}

/** Ctrl-C: the servers are stopped and the folder is removed before the end. */
function clearOnSignals(place: Workplace): void {
  const end = (code: number) => () => void place.clear().finally(() => process.exit(code))
  process.once('SIGINT', end(130)).once('SIGTERM', end(143))
}

async function prepare(options: Options, place: Workplace): Promise<Bench> {
  const pin = canPin()
  say(introduction(options, pin))
  say(`Filling a database with ${options.rows.toLocaleString('en')} products and starting both servers`)
  const service = await startService(place, options, pin)
  const start = memoryOf(service.pid)
  const headers = { authorization: `Bearer ${await service.token()}` }
  const middle = Math.ceil(options.rows / 2)
  const { body: read } = await answerOf(service, 200, { method: 'GET', path: `/products/${middle}`, headers })
  const { body: page } = await answerOf(service, 200, { method: 'GET', path: '/products?limit=50', headers })
  const json = { ...headers, 'content-type': 'application/json' }
  const product = JSON.stringify({ name: nameOf(2_000_000), price: priceOf(1) })
  const creation = { method: 'POST', path: '/products', headers: json, body: product }
  const { body: created, headers: made } = await answerOf(service, 201, creation)
  // The report is about the rows that were filled in, not this one.
  await answerOf(service, 204, { method: 'DELETE', path: String(made.location), headers })
  const reference = await startReference(place, options, pin, service, { read, page, created })
  return { options, place, pin, service, reference, start, say }
}

function introduction({ tls, connections, seconds, rounds }: Options, pin: boolean): string {
  const transport = tls ? 'HTTPS to both' : 'plain HTTP to both, with X-Forwarded-Proto: https as from a trusted proxy'
  const place = pin ? 'servers on core 0, load generator on core 1' : 'NOT PINNED: taskset or a second core is missing'
  return [
    `${transport}; ${connections} connections, ${rounds} rounds of ${seconds} s; ${place}`,
    'Both get the same bytes, with an access token. Access log at info to a file. Only the ratios mean anything.',
  ].join('\n')
}
