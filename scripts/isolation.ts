/** Measures whether one abusive client affects other clients; see the usage below and docs/testing.md. */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { openSandbox } from '../bench/sandbox.ts'
import { s3Server } from '../test/support/s3.ts'
import { scenarios as scenarioNames } from './isolation/order.ts'
import { type Filled, fillLarge, type IsolationResult, isolationRun } from './isolation/run.ts'

const usage = `Starts a service on a large database, lets one client abuse it, and measures how a second client is affected.

  node scripts/isolation.ts [options] [-- options of fill-large.ts]

  --postgres URL   a server on which the run creates its own database (default: SQLite)
  --s3             store results on an S3 server that the run starts (versitygw) instead of in a folder
  --only NAMES     any of ${scenarioNames.join(', ')}
  --seconds N      duration of each scenario (10)
  --keep FOLDER    store the filled database in this folder, and use an existing one
  --scale N        number of endpoints, streams, downloads and connections as a fraction of the full number (1)
  --help           print this text

Prints one line per scenario. A scenario passes if the 99th percentile of the second client's reads stays below 50 ms, each
delivery arrives and each download ends within 2 s, and neither its connection nor its event stream is closed. The exit code
is 1 if a scenario fails.
`

const maxReadMs = 50
const maxWaitMs = 2_000
const say = (line: string): void => void process.stdout.write(`${line}\n`)

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    postgres: { type: 'string' },
    s3: { type: 'boolean', default: false },
    only: { type: 'string' },
    seconds: { type: 'string', default: '10' },
    scale: { type: 'string', default: '1' },
    keep: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})

/** Returns the reasons why a scenario fails; empty if it passes. */
function violations({ observation }: IsolationResult): string[] {
  const { p99Ms, cut, undelivered, deliveries, slowestDeliveryMs, slowestDownloadMs, failures } = observation
  const rules: [boolean, string][] = [
    [p99Ms >= maxReadMs, `p99 of reads ${p99Ms.toFixed(1)} ms`],
    [cut > 0, `${cut} connections or streams closed`],
    [failures.length > 0, `failed requests: ${failures[0]}`],
    [deliveries === 0 || undelivered > 0, `${undelivered} deliveries missing`],
    [slowestDownloadMs >= maxWaitMs, `a download took ${slowestDownloadMs.toFixed(0)} ms`],
    [slowestDeliveryMs >= maxWaitMs, `a delivery took ${slowestDeliveryMs.toFixed(0)} ms`],
  ]
  return rules.flatMap(([isBroken, text]) => (isBroken ? [text] : []))
}

/** Opens the filled database of an earlier run, or fills a new database. */
async function filledDatabase(folder: string): Promise<Filled> {
  const file = join(folder, 'filled.json')
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8')) as Filled
  mkdirSync(folder, { recursive: true })
  const filled = fillLarge(await newDatabase(folder), folder, positionals)
  writeFileSync(file, JSON.stringify(filled), { mode: 0o600 })
  return filled
}

async function newDatabase(folder: string): Promise<string> {
  if (values.postgres === undefined) return `file:${join(folder, 'large.db')}`
  const name = `plinth_isolation_${randomBytes(6).toString('hex')}`
  await administer(values.postgres, `create database ${name}`)
  return Object.assign(new URL(values.postgres), { pathname: `/${name}` }).href
}

async function dropDatabase({ databaseUrl }: Filled): Promise<void> {
  const name = new URL(databaseUrl).pathname.slice(1)
  if (values.postgres !== undefined) await administer(values.postgres, `drop database ${name} with (force)`)
}

async function administer(server: string, statement: string): Promise<void> {
  const administrator = new pg.Client({ connectionString: server })
  await administrator.connect()
  await administrator.query(statement).finally(() => administrator.end())
}

async function run(): Promise<number> {
  const scenarios = scenarioNames.filter((name) => values.only === undefined || values.only.split(',').includes(name))
  const [seconds, scale] = [Number(values.seconds), Number(values.scale)]
  if (scenarios.length === 0) throw new Error(`--only ${values.only}: expected some of ${scenarioNames.join(', ')}`)
  if (!(seconds > 0 && scale > 0)) throw new Error('--seconds and --scale: expected numbers greater than 0')
  const sandbox = openSandbox()
  const filled = await filledDatabase(values.keep ? resolve(values.keep) : sandbox.folder)
  const s3 = values.s3 ? await s3Server() : null
  const settings = s3 ? { ...s3.env, PLINTH_RESULTS_URL: s3.url } : {}
  try {
    const results = await isolationRun(sandbox, { filled, scenarios, seconds, scale, settings, say })
    const lines = results.map((result) => [result.scenario, violations(result)] as const)
    for (const [scenario, found] of lines)
      say(`${found.length === 0 ? 'PASS' : 'FAIL'} ${scenario} ${found.join('; ')}`)
    return lines.some(([, found]) => found.length > 0) ? 1 : 0
  } finally {
    await sandbox.clear()
    s3?.stop()
    if (values.keep === undefined) await dropDatabase(filled)
  }
}

if (values.help) say(usage)
else {
  process.exitCode = await run().catch((error) => {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`)
    return 2
  })
}
