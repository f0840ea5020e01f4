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
    /** Determines when the route's requests are shed under overload; default: see `shedOf`. */
    shed?: Shed
  }
  interface FastifyRequest {
    /** Whether the request is included in the number of requests in flight. */
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
  /**
   * Maximum number of requests in flight; default 1000. Does not count token requests, requests that may wait for a
   * change, or requests that are never shed.
   */
  maxInFlight?: number
  random: () => number
}

/** Decides which requests are shed because of load. */
export interface LoadShedder {
  isShed: (shed: Shed | undefined) => boolean
  /** Adds `change` to the number of requests in flight. */
  addInFlight: (change: 1 | -1) => void
  /** Returns the 503 for a request that is shed. */
  refusal: () => Problem
  /** Stops the measurements. */
  stop: () => void
}

const checkIntervalMs = 200
/**
 * The number of measurements to ignore after the start. Their delays come from compiling code, which shedding requests
 * would not speed up.
 */
const ignoredChecks = 10
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

/** Returns a load shedder, and starts its measurements of the event loop. */
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
  let checks = 0
  const bounds = shares.map((share) => share * maxInFlight)
  const check = () => {
    const metrics = measure()
    const measuredLevel = checks++ < ignoredChecks ? 0 : levelOf(metrics)
    // The level changes by at most one per measurement. It leaves 0 only after two overloaded measurements in a row, so
    // that a single pause does not cause shedding.
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
