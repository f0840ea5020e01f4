import { connect, type Socket, type TcpNetConnectOpts } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect as secureConnect } from 'node:tls'
import { readClocks, sharesOf } from './clocks.ts'
import type { OpenOrder, OpenResult, StreamResult } from './open-order.ts'
import { lengthOf, statusOf } from './response.ts'

/**
 * The open-loop generator, a process of its own: reads an `OpenOrder` from its input and writes an `OpenResult`. Requests
 * are due by the clock, whether or not the ones before were answered, so that a stalled server is seen in the latencies.
 */
const order = JSON.parse(await text(process.stdin)) as OpenOrder
const giveUpMs = 1_000
const buffer = Buffer.alloc(65_536)
let answered = 0
let broken = 0
let over = false
let idleMs = 0

interface Flow {
  name: string
  requests: Buffer[]
  perSecond: number
  /** How many were sent or given up. */
  done: number
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
    done: 0,
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
await new Promise<void>((ended) => turn(startMs, 0, ended))
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
const result: OpenResult = { streams: Object.fromEntries(streams), broken, ...sharesOf(before, after, answered) }
process.stdout.write(JSON.stringify(result), () => process.exit(0))

/** Sends what is due, and counts the turns of the loop that had nothing to do. */
function turn(fromMs: number, answeredBefore: number, ended: () => void): void {
  const nowMs = performance.now()
  const sent = flows.map((flow) => sendDue(flow, nowMs)).some((count) => count > 0)
  if (!sent && answered === answeredBefore) idleMs += nowMs - fromMs
  if (nowMs - startMs >= order.seconds * 1_000) ended()
  else {
    const known = answered
    setImmediate(() => turn(nowMs, known, ended))
  }
}

function sendDue(flow: Flow, nowMs: number): number {
  const due = Math.floor(((nowMs - startMs) * flow.perSecond) / 1_000)
  let sent = 0
  while (flow.done < due) {
    const dueMs = startMs + ((flow.done + 1) * 1_000) / flow.perSecond
    const connection = nowMs - dueMs > giveUpMs ? undefined : flow.free.pop()
    if (connection === undefined && nowMs - dueMs <= giveUpMs) return sent
    if (connection === undefined) flow.result.unsent++
    else {
      connection.current = { flow, dueMs, sentMs: nowMs }
      connection.socket.write(flow.requests[flow.result.sent++ % flow.requests.length] as Buffer)
      sent++
    }
    flow.done++
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
  answered++
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
