import { withoutLimits } from '../test/support/limits.ts'
import type { Bench, Measurement } from './bench.ts'
import { drive, driveOpen } from './drive.ts'
import { withRatio } from './measured.ts'
import { forgetPeak, memoryOf } from './memory.ts'
import type { OpenResult, Stream, StreamResult } from './open-order.ts'
import { quietest } from './quietest.ts'
import { type Service, startService } from './service.ts'
import { answerOf, proxied, requestText } from './target.ts'

const rows = 10_000
const others = 20
const othersPerSecond = 25
const greedyTimes = 20

/** Another service beside the one of the other rows, with limits of its own and few rows. */
async function started(bench: Bench, name: string, limits: Record<string, string>): Promise<Service> {
  const service = await startService(bench.place, { ...bench.options, rows }, bench.pin, { name, limits })
  forgetPeak(service.pid)
  return service
}

const reads = (headers: Record<string, string>) =>
  Array.from({ length: 64 }, (_, at) => requestText('GET', `/products/${1 + at * 150}`, headers))

const ms = (value: number) => `${value.toFixed(2)} ms`

/** A client that sends twenty times what it may, and what the others notice of it. */
export const greedyRow: Measurement = { name: 'greedy', measure: greedy }

async function greedy(bench: Bench) {
  const { options, place, pin, say } = bench
  const title = "Others' p99 beside a greedy client"
  say(`${title}: ${others} clients with ${othersPerSecond}/s each, and one with ${greedyTimes} times its limit`)
  const limits = { ...withoutLimits, PLINTH_RATE_LIMIT: '6000/60', PLINTH_THROTTLE: '200/1:400' }
  const service = await started(bench, 'greedy', limits)
  const headers = { ...proxied(options.tls), authorization: `Bearer ${await service.token()}` }
  const keys = await Promise.all(
    Array.from({ length: others + 1 }, (_, at) => newKey(service, headers, `Client ${at}`)),
  )
  const [greedyOne, ...calm] = keys.map((key) => reads({ ...headers, 'x-api-key': key }))
  const calmly: Stream = { name: 'others', requests: calm.flat(), perSecond: others * othersPerSecond, connections: 32 }
  const greedily: Stream = {
    name: 'greedy',
    requests: greedyOne as string[],
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
    const result = await driveOpen(place, pin, { ...order, streams })
    const { p50Ms, p99Ms } = streamOf(result, 'others')
    say(
      `  ${side.padEnd(9)} others p50 ${ms(p50Ms)} p99 ${ms(p99Ms)}  server ${Math.round(result.serverShare * 100)} %`,
    )
    refuseWrong(result, ['others'])
    return { ...result, perSecond: 1_000 / p99Ms }
  }
  await run('warming', [calmly])
  const rounds = []
  for (let round = 1; round <= options.rounds; round++) {
    rounds.push({ reference: await run('alone', [calmly]), service: await run('beside', [calmly, greedily]) })
  }
  await service.stop()
  const about = { name: greedyRow.name, title, floor: 1 / 1.2, unit: 'requests' as const, reference: 'without it' }
  return withRatio({ ...about, rounds, memory: bench.start })
}

async function newKey(service: Service, headers: Record<string, string>, name: string): Promise<string> {
  const json = { ...headers, 'content-type': 'application/json' }
  const question = { method: 'POST', path: '/api/keys', headers: json, body: JSON.stringify({ name }) }
  return (JSON.parse((await answerOf(service, 201, question)).body) as { key: string }).key
}

/** Ten times what the service can do, in a mix of conditional reads, lists and writes. */
export const overloadRow: Measurement = { name: 'overload', measure: overload }

const overloadTimes = 10
const overloadSeconds = 30
const acceptedP99Ms = 500
const restSeconds = 10

async function overload(bench: Bench) {
  const { options, place, pin, say } = bench
  const title = `Goodput at ${overloadTimes} times the load`
  const service = await started(bench, 'overload', withoutLimits)
  const headers = { ...proxied(options.tls), authorization: `Bearer ${await service.token()}` }
  const order = { port: service.port, tls: options.tls, serverPid: service.pid, requests: mix(headers) }
  const closed = { ...order, connections: options.connections, warmSeconds: 1, seconds: options.seconds }
  const capacity = await quietest(() => drive(place, pin, closed, null))
  const perSecond = overloadTimes * capacity.perSecond
  say(
    `${title}: the service does ${Math.round(capacity.perSecond)}/s; ${Math.round(perSecond)}/s for ${overloadSeconds} s`,
  )
  const send = (rate: number, seconds: number) => {
    const streams = [{ name: 'all', requests: order.requests, perSecond: rate, connections: 512 }]
    return driveOpen(place, pin, { ...order, streams, seconds })
  }
  const usual = await send(capacity.perSecond / 4, options.seconds)
  const result = await send(perSecond, overloadSeconds)
  const all = streamOf(result, 'all')
  const { statuses, unsent, sentP99Ms } = all
  say(
    `  goodput ${Math.round(all.perSecond)}/s  ${JSON.stringify(statuses)}  given up unsent ${unsent}  broken ${result.broken}`,
  )
  say(`  accepted p99 ${ms(sentP99Ms)} from the moment they were sent`)
  refuseWrong(result, [])
  if (sentP99Ms > acceptedP99Ms) throw new Error(`The p99 of what was accepted is above ${acceptedP99Ms} ms`)
  await untilAtRest(() => send(capacity.perSecond / 4, 1), streamOf(usual, 'all'), say)
  const memory = memoryOf(service.pid)
  await service.stop()
  const about = { name: overloadRow.name, title, floor: 0.8, unit: 'requests' as const, reference: 'its capacity' }
  const rounds = [{ reference: { ...capacity }, service: { ...result, perSecond: all.perSecond } }]
  return withRatio({ ...about, rounds, memory })
}

/** Fourteen conditional reads, three lists and two writes of twenty; the last read has nothing to compare with. */
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

/** Looks, a second at a time, until the service answers as it did before. Throws when that takes too long. */
async function untilAtRest(look: () => Promise<OpenResult>, usual: StreamResult, say: Bench['say']): Promise<void> {
  const wanted = Math.max(2 * usual.p99Ms, 20)
  for (let second = 1; second <= restSeconds; second++) {
    const { p99Ms, statuses } = streamOf(await look(), 'all')
    say(`  ${second} s after it: p99 ${ms(p99Ms)} (${ms(usual.p99Ms)} before)`)
    if (p99Ms <= wanted && statuses[503] === undefined) return
  }
  throw new Error(`The service is not back to normal after ${restSeconds} s`)
}

const streamOf = ({ streams }: OpenResult, name: string) => streams[name] as StreamResult

/** Throws for an answer that nobody should get: a fault, a refusal without Retry-After, any refusal of those named. */
function refuseWrong({ streams }: OpenResult, unrefused: string[]): void {
  for (const [name, { statuses, withoutRetryAfter }] of Object.entries(streams)) {
    const refusals = unrefused.includes(name) ? [] : ['429', '503']
    const wrong = Object.keys(statuses).filter((status) => !['200', '201', '304', ...refusals].includes(status))
    if (wrong.length > 0) throw new Error(`The stream ${name} was answered with ${JSON.stringify(statuses)}`)
    if (withoutRetryAfter > 0) throw new Error(`${withoutRetryAfter} refusals do not say when to come back`)
  }
}
