import { randomBytes } from 'node:crypto'
import { openSync, writeSync } from 'node:fs'
import { IncomingMessage, type Server, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { builtIn } from '../src/catalog/service.ts'
import type { Definition } from '../src/definition/service.ts'
import type { Verify } from '../src/http/policies/authenticate.ts'
import { openLogs } from '../src/logging/logs.ts'
import { quotaUses } from '../src/rate-limits/stores/quotas.ts'
import type { Database } from '../src/storage/database.ts'
import { pooledRandom } from '../src/storage/ids.ts'
import { migrate } from '../src/storage/migrate.ts'
import { openDatabase } from '../src/storage/open.ts'
import { requestCounter } from '../src/storage/request-counts.ts'
import { trafficCounter } from '../src/traffic/counter.ts'
import { requestLog } from '../src/traffic/request-log.ts'
import { testApp } from '../test/support/app.ts'
import { rulesOf } from '../test/support/limits.ts'

/** A request to pass to a server without a network. `raw` alternates header names and values, like `rawHeaders`. */
export interface InProcessRequest {
  method: 'GET' | 'POST' | 'PUT'
  path: string
  raw: readonly string[]
  body?: Buffer
}

const copy = Buffer.alloc(1_048_576)

/** Returns a fake socket. Like the kernel, it copies everything that is written to it. */
function sink(): Socket {
  const write = (data: string | Uint8Array, encoding: unknown, done: unknown) => {
    if (typeof data === 'string') copy.write(data, encoding === 'latin1' ? 'latin1' : 'utf8')
    const written = typeof encoding === 'function' ? encoding : done
    if (typeof written === 'function') process.nextTick(written as () => void)
    return true
  }
  const socket = Object.assign(new Socket(), { write })
  return Object.defineProperty(socket, 'remoteAddress', { value: '127.0.0.1' })
}

const sockets = Array.from({ length: 32 }, sink)

type Parsed = IncomingMessage & { _addHeaderLines: (raw: readonly string[], count: number) => void }

/** Passes a request to a server as the parser of Node.js does. Calls `onStatus` with the status of the response. */
function receive(
  server: Server,
  responseClass: typeof ServerResponse,
  { method, path, raw, body }: InProcessRequest,
  at: number,
  onStatus: (status: number) => void,
): void {
  const socket = sockets[at % sockets.length] as Socket
  const request = new IncomingMessage(socket) as Parsed
  Object.assign(request, { httpVersionMajor: 1, httpVersionMinor: 1, httpVersion: '1.1', method, url: path })
  request._addHeaderLines([...raw], raw.length)
  const response = new responseClass(request)
  response.shouldKeepAlive = true
  response.assignSocket(socket)
  response.on('finish', () => {
    response.detachSocket(socket)
    onStatus(response.statusCode)
  })
  if (body) {
    request.push(body)
    request.push(null)
    request.complete = true
  }
  // Check for Expect as Node.js does: the first access to `headers` parses all fields, which must be measured too.
  if (request.headers.expect === undefined) server.emit('request', request, response)
}

/**
 * Sends requests, 32 at a time, and returns the CPU time per request in µs. Throws if a response has another status.
 */
export async function cpuPerRequest(
  server: Server,
  {
    count,
    status,
    responseClass = ServerResponse,
  }: { count: number; status: number; responseClass?: typeof ServerResponse },
  requestAt: (at: number) => InProcessRequest,
): Promise<number> {
  let answered = 0
  const onStatus = (sent: number) => {
    if (sent !== status) throw new Error(`The response has the status ${sent} instead of ${status}`)
    answered++
  }
  const before = process.cpuUsage()
  for (let at = 0; at < count; ) {
    do receive(server, responseClass, requestAt(at), at++, onStatus)
    while (at % sockets.length !== 0 && at < count)
    while (answered < at) await turn()
  }
  const { user, system } = process.cpuUsage(before)
  return (user + system) / count
}

/** Sends a request whose response stays open, such as an event stream; resolves once its first bytes are written. */
export function openInProcess(
  server: Server,
  responseClass: typeof ServerResponse,
  { method, path, raw }: InProcessRequest,
): Promise<void> {
  const socket = sink()
  const request = new IncomingMessage(socket) as Parsed
  Object.assign(request, { httpVersionMajor: 1, httpVersionMinor: 1, httpVersion: '1.1', method, url: path })
  request._addHeaderLines([...raw], raw.length)
  const response = new responseClass(request)
  response.assignSocket(socket)
  return new Promise((resolve, reject) => {
    response.on('finish', () => reject(new Error(`The response to ${path} ended with ${response.statusCode}`)))
    const { write } = socket
    const first: typeof write = (...args: unknown[]) => {
      socket.write = write
      setImmediate(resolve)
      return write.apply(socket, args as never)
    }
    socket.write = first
    if (request.headers.expect === undefined) server.emit('request', request, response)
  })
}

export const authorization = `Bearer ${'e'.repeat(700)}`
const unreachable = 1_000_000_000
const onError = (error: unknown) => console.error(error)

interface ServiceOptions {
  /** The folder of the database. */
  folder: string
  definition?: Definition
  /** The caller's scopes. */
  scopes: readonly string[]
  fill?: (db: Database) => Promise<void>
}

/**
 * Starts a service on a new database in this process. All policies apply: limits and quotas that are too high to reach,
 * an access log written to a file, and statistics.
 */
export async function startInProcess({ folder, definition = builtIn, scopes, fill }: ServiceOptions) {
  const name = randomBytes(4).toString('hex')
  const db = await openDatabase(`file:${join(folder, `${name}.db`)}`)
  await migrate(db, { tables: definition.tables })
  await fill?.(db)
  const file = openSync(join(folder, `${name}.log`), 'w')
  const out = { isTTY: false, columns: 80, write: (text: string) => writeSync(file, text) > 0 }
  const logs = openLogs('info', { out, env: {}, now: Date.now })
  const observed = { db, node: 'bench', now: Date.now, onError }
  const [perDay, traffic] = [requestCounter(observed), trafficCounter(observed)]
  const logged = requestLog({ ...observed, rate: 50, random: randomBytes, onUnlogged: () => {} })
  const verification = { caller: { clientId: 'bench', subject: 'bench', scopes: new Set(scopes) } }
  const verify: Verify = Object.assign(() => verification, { known: () => () => verification })
  const unreached = { calls: unreachable, seconds: 60 }
  const { app } = await testApp(db, {
    ...{
      definition,
      verify,
      now: Date.now,
      random: pooledRandom(randomBytes),
      streams: { perAccount: 1_000, historySeconds: 3_600 },
      log: { access: logs.access, fault: onError },
    },
    onResponse: (line) => {
      perDay.count(line.client ?? '')
      traffic.count(line)
      logged.add(line)
    },
    limits: {
      rules: rulesOf({ general: unreached, quotas: { requests: unreachable, reports: null } }),
      ...{ counters: { record: quotaUses(db), shared: null }, monotonic: () => performance.now() },
    },
  })
  await app.ready()
  return app
}
