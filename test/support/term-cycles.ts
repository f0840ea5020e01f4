import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { proxied, requestText, send } from '../../bench/http.ts'
import { freePort } from '../../src/serving/listeners.ts'
import { withoutLimits } from './limits.ts'
import { eventually } from './service.ts'
import { type Fates, keepAliveClient, noFates } from './term-client.ts'

export interface CyclesOptions {
  cycles: number
  tls: boolean
  perSecond: number
  connections: number
  /** Environment variables for the service, in addition to the test defaults. */
  env: Record<string, string>
  random: () => number
  /** Receives one line per cycle. */
  say: (line: string) => void
}

/** The outcomes of a cycle's requests, and how the service exited. */
export interface Cycle extends Fates {
  /** The ids of requests without a response that the access log lists as handled. */
  lost: string[]
  /** The first `/readyz` status other than 200, or undefined if the service exited before the check. */
  readyz: number | undefined
  exitCode: number | null
  stopMs: number
}

const tickMs = 5
const afterMs = 100
const busyMs = { least: 300, most: 900 }

/** A service that can be started repeatedly. */
interface Stoppable {
  port: number
  tls: boolean
  start: () => Promise<{ child: ChildProcess; output: () => string }>
  remove: () => void
}

/** Repeatedly starts a service and stops it with SIGTERM under load; returns the outcome of each cycle. */
export async function termCycles(options: CyclesOptions): Promise<Cycle[]> {
  const cycles: Cycle[] = []
  const service = await stoppable(options)
  try {
    for (let at = 1; at <= options.cycles; at++) {
      const cycle = await stopUnderLoad(service, options, at)
      cycles.push(cycle)
      options.say(lineOf(cycle, at))
    }
  } finally {
    service.remove()
  }
  return cycles
}

const plinth = fileURLToPath(new URL('../../bin/plinth.js', import.meta.url))

async function stoppable({ tls, env }: CyclesOptions): Promise<Stoppable> {
  const dataDir = mkdtempSync(join(tmpdir(), 'plinth-term-'))
  const port = await freePort()
  const plain = { PLINTH_TLS: 'off', PLINTH_TRUSTED_PROXIES: '127.0.0.1', PLINTH_BASE_URL: 'https://plinth.test' }
  const settings = {
    ...process.env,
    ...{ PLINTH_DATA_DIR: dataDir, PLINTH_PORT: String(port), PLINTH_HTTP_PORT: '0' },
    ...{ PLINTH_BOOTSTRAP_CLIENT_ID: 'boot', PLINTH_BOOTSTRAP_CLIENT_SECRET: 'boot' },
    ...withoutLimits,
    ...(tls ? {} : plain),
    ...env,
  }
  let child: ChildProcess | undefined
  const start = async () => {
    const started = spawn(process.execPath, [plinth, 'serve'], { env: settings, stdio: ['ignore', 'pipe', 'pipe'] })
    child = started
    let output = ''
    started.stdout.on('data', (chunk) => (output += chunk))
    started.stderr.on('data', (chunk) => (output += chunk))
    await eventually('the service is ready', async () => {
      if (started.exitCode !== null) throw new Error(`The service ended with ${started.exitCode}: ${output}`)
      return (await statusAt({ port, tls }, '/readyz')) === 200
    })
    return { child: started, output: () => output }
  }
  const remove = () => {
    if (child?.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    rmSync(dataDir, { recursive: true, force: true })
  }
  return { port, tls, start, remove }
}

/** Sends a GET on a new connection. Returns the status, or undefined if connecting fails. */
const statusAt = (service: Pick<Stoppable, 'port' | 'tls'>, path: string) =>
  send(service, { method: 'GET', path }).then(
    (answer) => {
      answer.resume()
      return answer.statusCode
    },
    () => undefined,
  )

/** Returns a function that builds the request with a given id; every fifth request is a write, the others are reads. */
async function requestsTo(service: Stoppable): Promise<(id: string) => string> {
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const basic = { authorization: `Basic ${Buffer.from('boot:boot').toString('base64')}` }
  const question = { method: 'POST', path: '/oauth/token', headers: { ...form, ...basic } }
  const answer = await send(service, { ...question, body: 'grant_type=client_credentials' })
  const { access_token } = JSON.parse(await text(answer)) as { access_token: string }
  const headers = { ...proxied(service.tls), authorization: `Bearer ${access_token}` }
  const json = { ...headers, 'content-type': 'application/json' }
  let count = 0
  return (id) => {
    const own = { 'x-request-id': id }
    if (++count % 5 !== 0) return requestText('GET', '/products?limit=3', { ...headers, ...own })
    return requestText('POST', '/products', { ...json, ...own }, JSON.stringify({ name: id, price: 1.5 }))
  }
}

/** Returns whether a cycle met every guarantee of a graceful shutdown. */
export const isGraceful = ({ lost, reset, bare503, exitCode, readyz }: Cycle): boolean =>
  lost.length + reset.length + bare503 === 0 && exitCode === 0 && (readyz ?? 503) === 503

/**
 * Counts the requests that the service had not read when it closed the connection gracefully. Clients can safely
 * repeat such requests.
 */
export const unread = ({ ended, lost }: Cycle): number => ended.filter((id) => !lost.includes(id)).length

function lineOf(cycle: Cycle, at: number): string {
  const { written, answered, lost, reset, bare503, refused, last, stopMs, exitCode, readyz } = cycle
  return [
    `${String(at).padStart(4)} ${isGraceful(cycle) ? 'PASS' : 'FAIL'}  written ${written} answered ${answered} (${last} the last)`,
    `read and unanswered ${lost.length}  reset ${reset.length}  503 without Retry-After ${bare503}`,
    `ended in order, unread ${unread(cycle)}  not connected ${refused}`,
    `readyz ${readyz ?? 'gone'}  exit ${exitCode} after ${Math.round(stopMs)} ms`,
  ].join('  ')
}

async function stopUnderLoad(service: Stoppable, options: CyclesOptions, at: number): Promise<Cycle> {
  const { child, output } = await service.start()
  const { connections, random } = options
  const fates = noFates()
  const request = await requestsTo(service)
  const clients = Array.from({ length: connections }, () => keepAliveClient({ ...service, request, fates }))
  const stopLoad = load(clients, options.perSecond, at)
  await pause(busyMs.least + random() * (busyMs.most - busyMs.least))
  const ended = once(child, 'close')
  const signalledMs = performance.now()
  child.kill('SIGTERM')
  const readyz = await eventually('the signal has arrived', async () => {
    const status = await statusAt(service, '/readyz')
    return status !== 200 && [status]
  })
  const [exitCode] = (await ended) as [number | null]
  const stopMs = performance.now() - signalledMs
  await stopLoad()
  const log = output()
  const lost = [...fates.ended, ...fates.reset].filter((id) => log.includes(`"${id}"`))
  return { ...fates, lost, readyz: readyz[0], exitCode, stopMs }
}

type Clients = ReturnType<typeof keepAliveClient>[]

/** Sends requests at a fixed rate, distributed round-robin over the clients; returns a function that stops sending. */
function load(clients: Clients, perSecond: number, at: number): () => Promise<void> {
  const begunMs = performance.now()
  let sent = 0
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - begunMs) * perSecond) / 1_000)
    for (; sent < due; sent++) clients[sent % clients.length]?.send(`cycle-${at}-request-${sent}`)
  }, tickMs)
  return async () => {
    clearInterval(timer)
    // Waits for responses that the service sent before it exited.
    await pause(afterMs)
    for (const { close } of clients) close()
  }
}
