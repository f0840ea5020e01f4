import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import type { RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { Problem } from '../problems/problem.ts'
import { routeConfig } from '../route-config.ts'

/** The order in which routes are shed. Routes marked `never`, such as health checks, are never shed. */
const order = ['list', 'write', 'read', 'token'] as const
type Shed = (typeof order)[number] | 'never'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The category that determines when the route is shed under overload; derived from its method and schema by default. */
    shed?: Shed
  }
  interface FastifyRequest {
    /** Whether the request counts as in flight. */
    isInFlight: boolean
  }
}

/** Event-loop measurements. */
export interface LoopMetrics {
  /** Mean delay in ms. */
  delayMs: number
  /** Fraction of the time during which the loop was busy. */
  utilization: number
  /** Fraction of the time during which the thread was running on a CPU. */
  cpuShare: number
}

export interface OverloadOptions {
  /** Returns measurements for the time since the previous call. */
  measure?: () => LoopMetrics
  /** Runs a callback after `ms`; returns a function that cancels it. */
  later: (ms: number, run: () => void) => () => void
  /** Maximum number of requests in flight, not counting requests that wait for a change. */
  maxInFlight?: number
  random: () => number
}

/** Decides which requests are shed because of load. */
export interface LoadShedder {
  isShed: (shed: Shed | undefined) => boolean
  /** Counts a request as in flight, or no longer. */
  addInFlight: (change: 1 | -1) => void
  /** Returns the 503 for a request that is shed. */
  refusal: () => Problem
  /** Stops the measurements. */
  stop: () => void
}

const checkIntervalMs = 200
const busyUtilization = 0.9
/**
 * Event-loop delays in ms at which lists, writes, reads and token requests are shed. Only delay caused by this process
 * counts.
 */
const delaysMs = [100, 150, 225, 350]
/** Fractions of `maxInFlight` at which lists, writes, reads and token requests are shed. */
const shares = [0.6, 0.75, 0.9, 1]

/**
 * Returns the overload level of a measurement, from 0 (no overload) to 4 (everything except `never` is shed). Counts
 * only the share of the delay during which this process was using the CPU; that share grows with the accepted requests.
 * Delay caused by other processes competing for the CPU is ignored, because shedding requests would not reduce it.
 */
export function levelOf({ delayMs, utilization, cpuShare }: LoopMetrics): number {
  if (utilization < busyUtilization) return 0
  const ownDelayMs = delayMs * Math.min(1, cpuShare / utilization)
  return delaysMs.filter((from) => ownDelayMs >= from).length
}

/** Starts to measure the load: the delay of a busy event loop and the number of requests in flight. */
export function loadShedder({
  measure = measuring(),
  later,
  maxInFlight = 1_000,
  random,
}: OverloadOptions): LoadShedder {
  let level = 0
  let inFlight = 0
  let cancel = () => {}
  let wasOverloaded = false
  const bounds = shares.map((share) => share * maxInFlight)
  const check = () => {
    const measuredLevel = levelOf(measure())
    // The level changes by at most one per measurement. Two overloaded measurements in a row are needed to leave level 0,
    // so a single pause sheds nothing.
    if (level > 0 || wasOverloaded) level += Math.sign(measuredLevel - level)
    wasOverloaded = measuredLevel > 0
    cancel = later(checkIntervalMs, check)
  }
  check()
  return {
    isShed: (shed = 'read') => {
      const rank = ranks[shed]
      return rank < level || inFlight >= (bounds[rank] ?? Number.POSITIVE_INFINITY)
    },
    addInFlight: (change) => {
      inFlight += change
    },
    refusal: () => overloaded(random),
    stop: () => cancel(),
  }
}

/**
 * Sends 503 with Retry-After before the service is overwhelmed. Lists are shed first, then writes, reads and token
 * requests; health checks are never shed.
 */
export const overload = fastifyPlugin<LoadShedder>(
  async (app, { isShed, addInFlight, refusal, stop }) => {
    app.decorateRequest('isInFlight', false)
    app.addHook('onRoute', (route) => {
      route.config = { ...route.config, shed: route.config?.shed ?? shedOf(route) }
    })
    app.addHook('onRequest', (request, _reply, done) => {
      isShed(routeConfig(request).shed) ? done(refusal()) : done()
    })
    app.addHook('preHandler', (request, _reply, done) => {
      const { waits, scope, shed } = routeConfig(request)
      if (!waits && scope !== 'own' && shed !== 'never') {
        request.isInFlight = true
        addInFlight(1)
      }
      done()
    })
    app.addHook('onSend', (request, _reply, payload, done) => {
      if (request.isInFlight) {
        request.isInFlight = false
        addInFlight(-1)
      }
      done(null, payload)
    })
    app.addHook('onClose', async () => stop())
  },
  { name: 'overload', dependencies: ['errorHandler', 'https'] },
)

const ranks: Record<Shed, number> = { list: 0, write: 1, read: 2, token: 3, never: 4 }

/**
 * Returns the category of a route: `token` if it does its own authorization, otherwise `write` for methods other than
 * GET and HEAD, `list` for a paginated GET, and `read` for the rest.
 */
function shedOf({ method, schema, config }: RouteOptions): Shed {
  if (config?.scope === 'own') return 'token'
  const isRead = [method].flat().every((name) => name === 'GET' || name === 'HEAD')
  if (!isRead) return 'write'
  const query = (schema?.querystring as { properties?: object } | undefined)?.properties ?? {}
  return 'limit' in query ? 'list' : 'read'
}

const overloaded = (random: () => number) =>
  new Problem('SERVICE_UNAVAILABLE', 'The service is overloaded, try again later', {
    // Jitter keeps clients from all retrying at the same time.
    headers: { 'retry-after': String(1 + Math.floor(random() * 5)) },
  })

const resolutionMs = 10

/** Returns a function that measures mean event-loop delay, utilization and CPU share since its previous call. */
function measuring(): () => LoopMetrics {
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
