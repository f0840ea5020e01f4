import { connect, type Socket, type TcpNetConnectOpts } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as secureConnect } from 'node:tls'
import { readClocks, sharesOf } from './cpu-and-memory.ts'
import { lengthOf, statusOf } from './http.ts'

/** The load generator's standard input. */
export interface LoadOrder {
  port: number
  tls: boolean
  /** The raw requests, sent in rotation. */
  requests: string[]
  connections: number
  /** Duration of the warm-up, before counting starts. */
  warmSeconds: number
  seconds: number
  /** The process whose CPU time is measured. */
  serverPid: number
}

/**
 * The load generator's standard output. Each share is a fraction of wall time. `serverShare` is the server's CPU time,
 * and `loadShare` is the time that the generator did not spend waiting. The `others` shares are the CPU time of other
 * processes on the same core.
 */
export interface LoadResult {
  /** Number of responses, including those of the warm-up. */
  responses: number
  statuses: Record<number, number>
  perSecond: number
  p50Ms: number
  p99Ms: number
  serverShare: number
  loadShare: number
  othersShare: number
  othersLoadShare: number
  /** The server's CPU time per request in microseconds. */
  serverUs: number
}

/**
 * The closed-loop load generator, which runs in its own process: reads a `LoadOrder` and writes a `LoadResult`. Each
 * connection sends the next request as soon as it receives a response. The generator does so little per request that the
 * server is the bottleneck; common Node.js generators use as much CPU per request as bare Fastify, which would make every
 * ratio look better. It never sleeps, because waking it costs the server several microseconds on a virtual machine.
 */
const order = JSON.parse(await text(process.stdin)) as LoadOrder
const requests = order.requests.map((request) => Buffer.from(request))
const slotsUs = 1_000_000
const latencies = new Uint32Array(slotsUs)
const statuses: Record<number, number> = {}
let next = 0
let responses = 0
let counting = false
let over = false
/** Time spent in event loop iterations without a response. */
let idleMs = 0

const buffer = Buffer.alloc(65_536)
const sockets = Array.from({ length: order.connections }, openConnection)
poll(performance.now(), 0)
const result = await measured()
for (const socket of sockets) socket.destroy()
process.stdout.write(JSON.stringify(result))

async function measured(): Promise<LoadResult> {
  await sleep(order.warmSeconds * 1_000)
  const before = readClocks(order.serverPid, idleMs)
  counting = true
  await sleep(order.seconds * 1_000)
  counting = false
  const after = readClocks(order.serverPid, idleMs)
  over = true
  const count = latencies.reduce((sum, slot) => sum + slot, 0)
  return {
    responses,
    statuses,
    perSecond: (count * 1_000) / (after.wall - before.wall),
    p50Ms: percentile(count, 0.5),
    p99Ms: percentile(count, 0.99),
    ...sharesOf(before, after, count),
  }
}

/** Keeps the event loop busy, and adds up the time spent in iterations without a response. */
function poll(startedMs: number, responsesBefore: number): void {
  const now = performance.now()
  if (responses === responsesBefore) idleMs += now - startedMs
  const before = responses
  if (!over) setImmediate(() => poll(now, before))
}

function percentile(count: number, share: number): number {
  let seen = 0
  const at = latencies.findIndex((slot) => {
    seen += slot
    return seen >= count * share
  })
  return at / 1_000
}

function openConnection(): Socket {
  let pending: Buffer | null = null
  let sentMs = 0
  const send = () => {
    sentMs = performance.now()
    socket.write(requests[next++ % requests.length] as Buffer)
  }
  const receive = (size: number) => {
    const chunk = buffer.subarray(0, size)
    const bytes: Buffer = pending ? Buffer.concat([pending, chunk]) : chunk
    const length = lengthOf(bytes)
    if (length === 0 || length > bytes.length) pending = Buffer.from(bytes)
    else if (length < bytes.length) fail(new Error('The server sent more than one response to a request'))
    else {
      pending = null
      record(statusOf(bytes), performance.now() - sentMs)
      if (!over) send()
    }
    return true
  }
  const options = { host: '127.0.0.1', port: order.port, noDelay: true, onread: { buffer, callback: receive } }
  const socket = open(options).on('error', fail)
  socket.once('close', () => over || fail(new Error('The server closed a connection')))
  return socket.once(order.tls ? 'secureConnect' : 'connect', send)
}

function open(options: TcpNetConnectOpts): Socket {
  return order.tls ? secureConnect({ ...options, rejectUnauthorized: false }) : connect(options)
}

function record(status: number, ms: number): void {
  responses++
  statuses[status] = (statuses[status] ?? 0) + 1
  if (!counting) return
  const slot = Math.min(Math.floor(ms * 1_000), slotsUs - 1)
  latencies[slot] = (latencies[slot] ?? 0) + 1
}

function fail(error: Error): void {
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
}
