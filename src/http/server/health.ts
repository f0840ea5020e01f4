import type { FastifyPluginAsync } from 'fastify'
import { Type } from 'typebox'
import { Problem } from '../problems/problem.ts'

export interface HealthOptions {
  /** Throws when the store cannot do its work now. */
  check: () => Promise<void>
  /** Whether the clock of this node is near enough to that of the store; it is where nothing is given. */
  isClockUsable?: (() => boolean) | undefined
  now: () => number
  /** Aborted when the service begins to stop. */
  stopping: AbortSignal
}

/** Whether a request target is one of the two paths, which are answered over plain HTTP too: to a probe 301 means health. */
export const isHealthPath = (target: string | undefined): boolean => /^\/(livez|readyz)(\?|$)/.test(target ?? '')

const unready = (detail: string, cause?: unknown) =>
  new Problem('SERVICE_UNAVAILABLE', detail, { headers: { 'retry-after': '2' }, cause })

const rememberMs = 1_000
const Status = Type.Object({ status: Type.String({ enum: ['ok'] }) })

/**
 * `/livez`: the process answers, no I/O. `/readyz`: the service is not stopping, its clock is right, and the store answers,
 * which is asked at most once a second.
 */
export const health: FastifyPluginAsync<HealthOptions> = async (app, { check, isClockUsable, now, stopping }) => {
  // Whoever asks, and however: an answer to a probe is always one.
  const config = { scope: 'public', cache: 'none', produces: [], limit: 'none', shed: 'never' } as const
  const response = { 200: Status }
  const tags = ['meta']
  let asked = { at: -rememberMs, answer: Promise.resolve() }
  const live = { operationId: 'livez', summary: 'The process is alive', tags, response }
  app.get('/livez', { config, schema: live, logLevel: 'silent' }, async () => ({ status: 'ok' }))
  const ready = { operationId: 'readyz', summary: 'The service can take requests', tags, response }
  app.get(
    '/readyz',
    { config: { ...config, problems: ['SERVICE_UNAVAILABLE'] }, schema: ready, logLevel: 'silent' },
    async () => {
      if (stopping.aborted) throw unready('The service is stopping')
      if (isClockUsable?.() === false) throw unready('The clock of this node is wrong')
      // Nor remembered for long by a clock that was put back.
      if (Math.abs(now() - asked.at) >= rememberMs) asked = { at: now(), answer: check() }
      await asked.answer.catch((cause) => {
        throw unready('The store does not answer', cause)
      })
      return { status: 'ok' }
    },
  )
}
