import { withoutLimits } from '../test/support/limits.ts'
import type { Bench, Measurement } from './bench.ts'
import { memoryOf, resetPeak } from './cpu-and-memory.ts'
import { expectResponse, proxied, requestText } from './http.ts'
import type { OpenResult, Stream, StreamResult } from './open-load.ts'
import { bestRun, withRatio } from './results.ts'
import { runLoad, runOpenLoad } from './sandbox.ts'
import { type Service, startService } from './service.ts'

const rows = 10_000
const others = 20
const othersPerSecond = 25
const greedyTimes = 20

/** Starts a service with the given limits and few rows. */
async function startLimited(bench: Bench, name: string, limits: Record<string, string>): Promise<Service> {
  const service = await startService(bench.sandbox, { ...bench.options, rows }, bench.pin, { name, limits })
  resetPeak(service.pid)
  return service
}

const reads = (headers: Record<string, string>) =>
  Array.from({ length: 64 }, (_, at) => requestText('GET', `/products/${1 + at * 150}`, headers))

const ms = (value: number) => `${value.toFixed(2)} ms`

/**
 * Measures the latency that other clients see while one client sends twenty times as many requests as its limit allows.
 */
export const greedyRow: Measurement = { name: 'greedy', measure: greedy }

async function greedy(bench: Bench) {
  const { options, sandbox, pin, say } = bench
  const title = "Other clients' p99 beside a greedy one"
  say(`${title}: ${others} clients with ${othersPerSecond}/s each, and one with ${greedyTimes} times its limit`)
  const limits = { ...withoutLimits, PLINTH_RATE_LIMIT: '6000/60', PLINTH_THROTTLE: '200/1:400' }
  const service = await startLimited(bench, 'greedy', limits)
  const headers = { ...proxied(options.tls), authorization: `Bearer ${await service.token()}` }
  const keys = await Promise.all(
    Array.from({ length: others + 1 }, (_, at) => newKey(service, headers, `Client ${at}`)),
  )
  const [greedyRequests, ...otherRequests] = keys.map((key) => reads({ ...headers, 'x-api-key': key }))
  const otherStream: Stream = {
    name: 'others',
    requests: otherRequests.flat(),
    perSecond: others * othersPerSecond,
    connections: 32,
  }
  const greedyStream: Stream = {
    name: 'greedy',
    requests: greedyRequests as string[],
    perSecond: (greedyTimes * 6_000) / 60,
    connections: 256,
  }
  const order = {
    port: service.port,
    tls: options.tls,
    seconds: options.seconds,
    serverPid: service.pid,
  }
  const run = async (side: string, streams: Stream[]) => {
    const result = await runOpenLoad(sandbox, pin, { ...order, streams })
    const { p50Ms, p99Ms } = streamOf(result, 'others')
    say(
      `  ${side.padEnd(9)} others p50 ${ms(p50Ms)} p99 ${ms(p99Ms)}  server ${Math.round(result.serverShare * 100)} %`,
    )
    assertStatuses(result, ['others'])
    return { ...result, perSecond: 1_000 / p99Ms }
  }
  await run('warming', [otherStream])
  const rounds = []
  for (let round = 1; round <= options.rounds; round++) {
    rounds.push({
      reference: await run('alone', [otherStream]),
      service: await run('beside', [otherStream, greedyStream]),
    })
  }
  await service.stop()
  const about = {
    name: greedyRow.name,
    title,
    floor: 1 / 1.2,
    unit: 'requests' as const,
    reference: 'without the greedy client',
  }
  return withRatio({ ...about, rounds, memory: bench.start })
}

async function newKey(service: Service, headers: Record<string, string>, name: string): Promise<string> {
  const json = { ...headers, 'content-type': 'application/json' }
  const request = { method: 'POST', path: '/api/keys', headers: json, body: JSON.stringify({ name }) }
  return (JSON.parse((await expectResponse(service, 201, request)).body) as { key: string }).key
}

/** Measures the goodput when clients send ten times as many requests as the service can handle. */
export const overloadRow: Measurement = { name: 'overload', measure: overload }

const overloadTimes = 10
const overloadSeconds = 30
const maxAcceptedP99Ms = 500
const maxRecoverySeconds = 10

async function overload(bench: Bench) {
  const { options, sandbox, pin, say } = bench
  const title = `Goodput at ${overloadTimes} times the load`
  const service = await startLimited(bench, 'overload', withoutLimits)
  const headers = { ...proxied(options.tls), authorization: `Bearer ${await service.token()}` }
  const order = { port: service.port, tls: options.tls, serverPid: service.pid, requests: mix(headers) }
  const closed = { ...order, connections: options.connections, warmSeconds: 1, seconds: options.seconds }
  const capacity = await bestRun(() => runLoad(sandbox, pin, closed, null))
  const perSecond = overloadTimes * capacity.perSecond
  say(
    `${title}: the service does ${Math.round(capacity.perSecond)}/s; ${Math.round(perSecond)}/s for ${overloadSeconds} s`,
  )
  const send = (rate: number, seconds: number) => {
    const streams = [{ name: 'all', requests: order.requests, perSecond: rate, connections: 512 }]
    return runOpenLoad(sandbox, pin, { ...order, streams, seconds })
  }
  const usual = await send(capacity.perSecond / 4, options.seconds)
  const result = await send(perSecond, overloadSeconds)
  const all = streamOf(result, 'all')
  const { statuses, unsent, sentP99Ms } = all
  say(
    `  goodput ${Math.round(all.perSecond)}/s  ${JSON.stringify(statuses)}  dropped ${unsent}  broken ${result.broken}`,
  )
  say(`  accepted p99 ${ms(sentP99Ms)} from sending`)
  assertStatuses(result, [])
  if (sentP99Ms > maxAcceptedP99Ms) throw new Error(`The p99 of accepted requests is above ${maxAcceptedP99Ms} ms`)
  await untilRecovered(() => send(capacity.perSecond / 4, 1), streamOf(usual, 'all'), say)
  const memory = memoryOf(service.pid)
  await service.stop()
  const about = { name: overloadRow.name, title, floor: 0.8, unit: 'requests' as const, reference: 'its capacity' }
  const rounds = [{ reference: { ...capacity }, service: { ...result, perSecond: all.perSecond } }]
  return withRatio({ ...about, rounds, memory })
}

/** Builds requests in groups of twenty: 14 conditional reads, three lists, two writes and one unconditional read. */
function mix(headers: Record<string, string>): string[] {
  const json = { ...headers, 'content-type': 'application/json' }
  const read = (at: number) => requestText('GET', `/products/${1 + at * 150}`, { ...headers, 'if-none-match': '"1"' })
  return Array.from({ length: 200 }, (_, at) => {
    const kind = at % 20
    if (kind % 7 === 3) return requestText('GET', '/products?limit=50', headers)
    if (kind % 10 === 8)
      return requestText('POST', '/products', json, JSON.stringify({ name: `New ${at}`, price: 1.5 }))
    return kind === 19 ? requestText('GET', `/products/${1 + at}`, headers) : read(at % 64)
  })
}

/**
 * Sends requests for one second at a time until the latency is normal again and none gets a 503. Throws if that takes
 * too long.
 */
async function untilRecovered(probe: () => Promise<OpenResult>, usual: StreamResult, say: Bench['say']): Promise<void> {
  const maxP99Ms = Math.max(2 * usual.p99Ms, 20)
  for (let second = 1; second <= maxRecoverySeconds; second++) {
    const { p99Ms, statuses } = streamOf(await probe(), 'all')
    say(`  ${second} s later: p99 ${ms(p99Ms)} (${ms(usual.p99Ms)} before)`)
    if (p99Ms <= maxP99Ms && statuses[503] === undefined) return
  }
  throw new Error(`The service did not recover within ${maxRecoverySeconds} s`)
}

const streamOf = ({ streams }: OpenResult, name: string) => streams[name] as StreamResult

/** Throws on an unexpected status, on 429 or 503 without Retry-After, and on any 429 or 503 in the `unlimited` streams. */
function assertStatuses({ streams }: OpenResult, unlimited: string[]): void {
  for (const [name, { statuses, withoutRetryAfter }] of Object.entries(streams)) {
    const rejections = unlimited.includes(name) ? [] : ['429', '503']
    const unexpected = Object.keys(statuses).filter((status) => !['200', '201', '304', ...rejections].includes(status))
    if (unexpected.length > 0) throw new Error(`The stream ${name} got ${JSON.stringify(statuses)}`)
    if (withoutRetryAfter > 0) throw new Error(`${withoutRetryAfter} responses with 429 or 503 have no Retry-After`)
  }
}
