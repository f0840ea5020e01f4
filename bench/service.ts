import { openSync, readFileSync, truncateSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../src/start.ts'
import { withoutLimits } from '../test/support/limits.ts'
import { fill } from './fill.ts'
import { pinned, serverCore } from './machine.ts'
import type { Options } from './options.ts'
import { answerOf, ask, type Target } from './target.ts'
import { environment, profiling, type Workplace } from './workplace.ts'

/** The service under test, and the way to its files. */
export interface Service extends Target {
  databaseFile: string
  /** Key and certificates of its HTTPS server. */
  pemFile: string
  /** A new access token with every scope the rows need. */
  token: () => Promise<string>
  /** Empties the access log, which would fill the disk; throws if nothing was logged. */
  trimLog: () => void
  stop: () => Promise<void>
}

const program = resolve(import.meta.dirname, '../bin/plinth.js')
export const client = { id: 'bench', secret: 'bench-4c81f0d27ae95b3668e02f71d9b4' }
const startLimitMs = 30_000

/** Limits that nobody reaches: everything is counted and told, and nothing refused. */
export const generous = {
  ...Object.fromEntries(Object.keys(withoutLimits).map((name) => [name, '999999999/60'])),
  ...{
    PLINTH_THROTTLE: '999999999/1:999999999',
    PLINTH_QUOTA_REQUESTS: '999999999',
    PLINTH_QUOTA_REPORTS: '999999999',
  },
}

/** What of a service differs from the one that most rows measure. */
export interface Special {
  /** Its data folder, and its log. */
  name?: string
  limits?: Record<string, string>
  /** Flags of Node.js in place of those that the first line of the program gives. */
  flags?: readonly string[]
  /** Another engine's database, and how it is filled. */
  database?: { url: string; fill: (rows: number) => void }
}

/** Migrates and fills a database, and starts `plinth serve` on it with the settings of production, without limits unless told. */
export async function startService(
  place: Workplace,
  { rows, tls, profile }: Options,
  pin: boolean,
  { name = 'data', limits = withoutLimits, flags, database }: Special = {},
): Promise<Service> {
  const dataDir = join(place.folder, name)
  const port = await freePort()
  const env = environment({
    ...settings(dataDir, port, tls),
    ...limits,
    ...(database && { DATABASE_URL: database.url }),
  })
  const databaseFile = join(dataDir, 'plinth.db')
  await runToEnd(place, [program, 'migrate'], env)
  database ? database.fill(rows) : fill(databaseFile, rows)
  const logFile = join(place.folder, `${name}.log`)
  const log = openSync(logFile, 'a')
  // By its first line, as an installed `plinth` runs: the flags given there to Node are part of what is measured.
  const first = flags ? ['env', 'MALLOC_ARENA_MAX=2', process.execPath, ...flags] : []
  const command = pinned(pin, serverCore, [...first, program, 'serve'])
  const child = place.start(command, {
    env: { ...env, ...(profile && profiling('service')) },
    stdio: ['ignore', log, log],
  })
  const service = {
    ...{ name: 'service' as const, pid: child.pid as number, port, tls, databaseFile },
    pemFile: join(dataDir, 'certificates/server.pem'),
    token: () => newToken({ port, tls }),
    trimLog: () => trim(logFile),
    stop: () => place.stop(child),
  }
  await untilReady(service, () => child.exitCode !== null, logFile)
  return service
}

const settings = (dataDir: string, port: number, tls: boolean): Record<string, string> => ({
  PLINTH_DATA_DIR: dataDir,
  PLINTH_HOST: '127.0.0.1',
  PLINTH_PORT: String(port),
  PLINTH_DRAIN: '0',
  // All of the load comes from one address.
  PLINTH_MAX_CONNECTIONS_PER_ADDRESS: '2000',
  PLINTH_BOOTSTRAP_CLIENT_ID: client.id,
  PLINTH_BOOTSTRAP_CLIENT_SECRET: client.secret,
  ...(tls ? { PLINTH_HTTP_PORT: '0' } : { PLINTH_TLS: 'off', PLINTH_TRUSTED_PROXIES: '127.0.0.1' }),
})

/** Runs a command to its end; throws when it fails. */
export async function runToEnd(place: Workplace, command: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const child = place.start(command, { env, stdio: ['ignore', 'ignore', 'inherit'] })
  const code = await new Promise((ended) => child.once('exit', ended))
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}`)
}

async function untilReady(target: Target, hasEnded: () => boolean, logFile: string): Promise<void> {
  const end = performance.now() + startLimitMs
  for (;;) {
    const answer = await ask(target, { method: 'GET', path: '/readyz' }).catch(() => null)
    answer?.resume()
    if (answer?.statusCode === 200) return
    if (hasEnded() || performance.now() > end) {
      throw new Error(`The service did not become ready:\n${readFileSync(logFile, 'utf8')}`)
    }
    await sleep(50)
  }
}

async function newToken(target: Pick<Target, 'port' | 'tls'>): Promise<string> {
  const credentials = Buffer.from(`${client.id}:${client.secret}`).toString('base64')
  const headers = { authorization: `Basic ${credentials}`, 'content-type': 'application/x-www-form-urlencoded' }
  const scopes = 'products:write users:read reports:write reports:read webhooks:write admin'
  const form = encodeURI(`grant_type=client_credentials&scope=${scopes}`)
  const { body } = await answerOf(target, 200, { method: 'POST', path: '/oauth/token', headers, body: form })
  return (JSON.parse(body) as { access_token: string }).access_token
}

function trim(file: string): void {
  if (!readFileSync(file, 'utf8').includes('"path":"/products')) throw new Error('The service wrote no access log')
  truncateSync(file)
}
