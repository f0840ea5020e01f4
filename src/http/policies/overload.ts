import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import type { FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { Problem } from '../problems/problem.ts'
import { routeConfig } from '../route-config.ts'

/** What is given up first comes first; `never` is what tells others how the service is. */
const order = ['list', 'write', 'read', 'token'] as const
type Shed = (typeof order)[number] | 'never'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** When the route is given up under overload; from its method and schema where it does not say. */
    shed?: Shed
  }
  interface FastifyRequest {
    /** Whether the request is counted among those under way. */
    isUnderWay: boolean
  }
}

/** How the event loop fares. */
export interface Strain {
  /** How late it is, in ms. */
  delayMs: number
  /** The share of the time in which it had something to do. */
  utilization: number
  /** The share of the time in which it had a processor to do it with. */
  cpuShare: number
}

export interface OverloadOptions {
  /** Measures since the last time it was asked. */
  measure?: () => Strain
  /** Runs something after so many ms; returns how to call it off. */
  later: (ms: number, run: () => void) => () => void
  /** Requests under way at most; those that wait for something to happen are not among them. */
  maxUnderWay?: number
  random: () => number
}

const lookEveryMs = 200
const busy = 0.9
/** From which delay on, of the service's own making, each is given up: lists, writes, reads, tokens. */
const delaysMs = [100, 150, 225, 350]
/** From which share of the bound on. */
const shares = [0.6, 0.75, 0.9, 1]

/**
 * Under how much strain a level is reached: 0 is none, 4 gives up everything but `never`. Of the loop's delay counts the
 * share in which the service itself computed, which grows with the requests that it has taken on. While it only waits for
 * a processor that others use, giving up requests would help nobody.
 */
export function levelOf({ delayMs, utilization, cpuShare }: Strain): number {
  if (utilization < busy) return 0
  const ownDelayMs = delayMs * Math.min(1, cpuShare / utilization)
  return delaysMs.filter((from) => ownDelayMs >= from).length
}

/**
 * 503 with Retry-After before the service sinks: lists first, then writes, then reads, then tokens; health never. Signals
 * are the delay of the event loop while it is busy, and the number of requests under way.
 */
export const overload = fastifyPlugin<OverloadOptions>(
  async (app, { measure = measuring(), later, maxUnderWay = 1_000, random }) => {
    let level = 0
    let underWay = 0
    app.decorateRequest('isUnderWay', false)
    app.addHook('onRoute', (route) => {
      route.config = { ...route.config, shed: route.config?.shed ?? shedOf(route) }
    })
    const bounds = shares.map((share) => share * maxUnderWay)
    app.addHook('onRequest', (request, _reply, done) => {
      const rank = rankOf(request)
      const isTooMuch = rank < level || underWay >= (bounds[rank] ?? Number.POSITIVE_INFINITY)
      isTooMuch ? done(overloaded(random)) : done()
    })
    app.addHook('preHandler', (request, _reply, done) => {
      const { waits, scope, shed } = routeConfig(request)
      if (!waits && scope !== 'own' && shed !== 'never') {
        request.isUnderWay = true
        underWay++
      }
      done()
    })
    app.addHook('onSend', (request, _reply, payload, done) => {
      if (request.isUnderWay) {
        request.isUnderWay = false
        underWay--
      }
      done(null, payload)
    })
    let cancel = () => {}
    let wasStrained = false
    const look = () => {
      const found = levelOf(measure())
      // One step at a time, and none for a single pause: neither is it an overload, nor is a moment of rest its end.
      if (level > 0 || wasStrained) level += Math.sign(found - level)
      wasStrained = found > 0
      cancel = later(lookEveryMs, look)
    }
    look()
    app.addHook('onClose', async () => cancel())
  },
  { name: 'overload', dependencies: ['errors', 'https'] },
)

const ranks: Record<Shed, number> = { list: 0, write: 1, read: 2, token: 3, never: 4 }
const rankOf = (request: FastifyRequest): number => ranks[routeConfig(request).shed ?? 'read']

/** A list is what is paged through; all that does not read writes. */
function shedOf({ method, schema, config }: RouteOptions): Shed {
  if (config?.scope === 'own') return 'token'
  const isRead = [method].flat().every((name) => name === 'GET' || name === 'HEAD')
  if (!isRead) return 'write'
  const query = (schema?.querystring as { properties?: object } | undefined)?.properties ?? {}
  return 'limit' in query ? 'list' : 'read'
}

const overloaded = (random: () => number) =>
  new Problem('SERVICE_UNAVAILABLE', 'The service has too much to do now, try again', {
    // Not all at once again.
    headers: { 'retry-after': String(1 + Math.floor(random() * 5)) },
  })

const resolutionMs = 10

/** Mean delay of the loop, its utilization and its share of a processor since the last look. */
function measuring(): () => Strain {
  const delay = monitorEventLoopDelay({ resolution: resolutionMs })
  delay.enable()
  let before = performance.eventLoopUtilization()
  let beforeMs = performance.now()
  let cpuBefore = process.threadCpuUsage()
  return () => {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, before)
    before = now
    const nowMs = performance.now()
    const { user, system } = process.threadCpuUsage(cpuBefore)
    const cpuShare = (user + system) / 1e3 / (nowMs - beforeMs)
    beforeMs = nowMs
    cpuBefore = process.threadCpuUsage()
    const delayMs = Math.max(0, delay.mean / 1e6 - resolutionMs)
    delay.reset()
    return { delayMs: Number.isNaN(delayMs) ? 0 : delayMs, utilization, cpuShare }
  }
}
