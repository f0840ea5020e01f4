import { connect, type Socket, type TcpNetConnectOpts } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect as secureConnect } from 'node:tls'
import { readClocks, sharesOf } from './cpu-and-memory.ts'
import { lengthOf, statusOf } from './http.ts'

/** Requests that one kind of client sends at a fixed rate. */
export interface Stream {
  name: string
  /** The raw requests, sent in rotation. */
  requests: string[]
  perSecond: number
  /** Number of connections reserved for this stream, so that its delayed responses do not delay other streams. */
  connections: number
}

/** The open-loop generator's standard input. */
export interface OpenOrder {
  port: number
  tls: boolean
  streams: Stream[]
  seconds: number
  /** The process whose CPU time is measured. */
  serverPid: number
}

/** The outcome of a stream. Rates and latencies exclude 429 and 503. */
export interface StreamResult {
  sent: number
  /** Number of requests dropped because no connection was free within a second of their due time. */
  unsent: number
  statuses: Record<number, number>
  /** Number of 429 and 503 responses without Retry-After. */
  withoutRetryAfter: number
  perSecond: number
  /** Latencies measured from the time at which a request was due. */
  p50Ms: number
  p99Ms: number
  /** Latency measured from the time at which a request was sent. */
  sentP99Ms: number
}

export interface OpenResult {
  streams: Record<string, StreamResult>
  /** Number of connections that the server closed during a request. */
  broken: number
  serverShare: number
  loadShare: number
  othersShare: number
  othersLoadShare: number
  /** The server's CPU time per response in microseconds. */
  serverUs: number
}

/**
 * The open-loop load generator, which runs in its own process: reads an `OpenOrder` and writes an `OpenResult`. Requests are
 * due at fixed times, even if earlier requests have not been answered, so latencies show when the server stalls.
 */
const order = JSON.parse(await text(process.stdin)) as OpenOrder
const giveUpMs = 1_000
const buffer = Buffer.alloc(65_536)
let responses = 0
let broken = 0
let over = false
let idleMs = 0

interface Flow {
  name: string
  requests: Buffer[]
  perSecond: number
  /** Number of requests that were sent or dropped. */
  handled: number
  free: Connection[]
  result: Pick<StreamResult, 'sent' | 'unsent' | 'statuses' | 'withoutRetryAfter'>
  fromDueMs: number[]
  fromSentMs: number[]
}

interface Connection {
  free: Connection[]
  socket: Socket
  pending: Buffer | null
  current: { flow: Flow; dueMs: number; sentMs: number } | null
}

const flows = order.streams.map(({ name, requests, perSecond }): Flow => {
  const result = { sent: 0, unsent: 0, statuses: {}, withoutRetryAfter: 0 }
  return {
    name,
    requests: requests.map((one) => Buffer.from(one)),
    perSecond,
    handled: 0,
    free: [],
    result,
    fromDueMs: [],
    fromSentMs: [],
  }
})
await Promise.all(
  flows.flatMap((flow, at) => Array.from({ length: order.streams[at]?.connections ?? 0 }, () => open(flow))),
)
const before = readClocks(order.serverPid, 0)
const startMs = performance.now()
await new Promise<void>((ended) => poll(startMs, 0, ended))
const after = readClocks(order.serverPid, idleMs)
over = true
const streams = flows.map(({ name, result, fromDueMs, fromSentMs }) => [
  name,
  {
    ...result,
    perSecond: fromDueMs.length / order.seconds,
    p50Ms: percentile(fromDueMs, 0.5),
    p99Ms: percentile(fromDueMs, 0.99),
    sentP99Ms: percentile(fromSentMs, 0.99),
  },
])
const result: OpenResult = { streams: Object.fromEntries(streams), broken, ...sharesOf(before, after, responses) }
process.stdout.write(JSON.stringify(result), () => process.exit(0))

/** Sends the requests that are due, and adds up the time spent in idle iterations. */
function poll(fromMs: number, responsesBefore: number, ended: () => void): void {
  const nowMs = performance.now()
  const sent = flows.map((flow) => sendDue(flow, nowMs)).some((count) => count > 0)
  if (!sent && responses === responsesBefore) idleMs += nowMs - fromMs
  if (nowMs - startMs >= order.seconds * 1_000) ended()
  else {
    const known = responses
    setImmediate(() => poll(nowMs, known, ended))
  }
}

function sendDue(flow: Flow, nowMs: number): number {
  const due = Math.floor(((nowMs - startMs) * flow.perSecond) / 1_000)
  let sent = 0
  while (flow.handled < due) {
    const dueMs = startMs + ((flow.handled + 1) * 1_000) / flow.perSecond
    const connection = nowMs - dueMs > giveUpMs ? undefined : flow.free.pop()
    if (connection === undefined && nowMs - dueMs <= giveUpMs) return sent
    if (connection === undefined) flow.result.unsent++
    else {
      connection.current = { flow, dueMs, sentMs: nowMs }
      connection.socket.write(flow.requests[flow.result.sent++ % flow.requests.length] as Buffer)
      sent++
    }
    flow.handled++
  }
  return sent
}

function open(flow: Flow): Promise<void> {
  const { free } = flow
  const connection = { free, pending: null, current: null } as unknown as Connection
  const onread = { buffer, callback: (size: number) => receive(connection, buffer.subarray(0, size)) }
  const options: TcpNetConnectOpts = { host: '127.0.0.1', port: order.port, noDelay: true, onread }
  connection.socket = order.tls ? secureConnect({ ...options, rejectUnauthorized: false }) : connect(options)
  connection.socket.on('error', () => {})
  connection.socket.once('close', () => {
    if (over) return
    if (connection.current !== null) broken++
    const at = free.indexOf(connection)
    if (at >= 0) free.splice(at, 1)
    void open(flow)
  })
  return new Promise((ready) => {
    connection.socket.once(order.tls ? 'secureConnect' : 'connect', () => {
      free.push(connection)
      ready()
    })
  })
}

function receive(connection: Connection, chunk: Buffer): boolean {
  const bytes: Buffer = connection.pending ? Buffer.concat([connection.pending, chunk]) : chunk
  const length = lengthOf(bytes)
  if (length === 0 || length > bytes.length) connection.pending = Buffer.from(bytes)
  else {
    connection.pending = null
    if (connection.current !== null) record(connection.current, bytes)
    connection.current = null
    connection.free.push(connection)
  }
  return true
}

function record({ flow, dueMs, sentMs }: NonNullable<Connection['current']>, bytes: Buffer): void {
  responses++
  const status = statusOf(bytes)
  flow.result.statuses[status] = (flow.result.statuses[status] ?? 0) + 1
  if (status === 429 || status === 503) {
    if (!bytes.includes('\r\nretry-after: ')) flow.result.withoutRetryAfter++
    return
  }
  const nowMs = performance.now()
  flow.fromDueMs.push(nowMs - dueMs)
  flow.fromSentMs.push(nowMs - sentMs)
}

function percentile(values: number[], share: number): number {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}
