import type { FastifyPluginAsync } from 'fastify'
import { Type } from 'typebox'
import { Problem } from '../problems/problem.ts'

export interface HealthRouteOptions {
  /** Throws if the store is unavailable. */
  check: () => Promise<void>
  /**
   * Returns whether this node's clock is close enough to the store's clock. If omitted, the clock is assumed to be correct.
   */
  isClockUsable?: (() => boolean) | undefined
  now: () => number
  /** Aborted when the service starts to shut down. */
  stopping: AbortSignal
}

/**
 * Returns true for the paths of the two probes. These paths respond over plain HTTP as well, because a probe treats a 301 as
 * healthy.
 */
export const isHealthPath = (target: string | undefined): boolean => /^\/(livez|readyz)(\?|$)/.test(target ?? '')

const unavailable = (detail: string, cause?: unknown) =>
  new Problem('SERVICE_UNAVAILABLE', detail, { headers: { 'retry-after': '2' }, cause })

const cacheMs = 1_000
const Status = Type.Object({ status: Type.String({ enum: ['ok'] }) })

/**
 * Serves `/livez` and `/readyz`. `/livez` shows that the process responds and does no I/O. `/readyz` shows that the service
 * is not shutting down, its clock is correct and the store responds; the store is checked at most once a second.
 */
export const health: FastifyPluginAsync<HealthRouteOptions> = async (app, { check, isClockUsable, now, stopping }) => {
  // Probes always get a response: no authorization, negotiation, rate limit or shedding.
  const config = { scope: 'public', cache: 'none', produces: [], limit: 'none', shed: 'never' } as const
  const response = { 200: Status }
  const tags = ['meta']
  let lastCheck = { at: -cacheMs, answer: Promise.resolve() }
  const live = { operationId: 'livez', summary: 'Check that the process is alive', tags, response }
  app.get('/livez', { config, schema: live, logLevel: 'silent' }, async () => ({ status: 'ok' }))
  const ready = { operationId: 'readyz', summary: 'Check that the service can handle requests', tags, response }
  app.get(
    '/readyz',
    { config: { ...config, problems: ['SERVICE_UNAVAILABLE'] }, schema: ready, logLevel: 'silent' },
    async () => {
      if (stopping.aborted) throw unavailable('The service is shutting down')
      if (isClockUsable?.() === false) throw unavailable('The clock of this node is wrong')
      // Comparing the absolute difference prevents the cached result from being used for too long if the clock is set
      // back.
      if (Math.abs(now() - lastCheck.at) >= cacheMs) lastCheck = { at: now(), answer: check() }
      await lastCheck.answer.catch((cause) => {
        throw unavailable('The data store does not respond', cause)
      })
      return { status: 'ok' }
    },
  )
}
