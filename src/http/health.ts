import type { FastifyPluginAsync } from 'fastify'
import { Type } from 'typebox'
import { Problem } from './problem.ts'

export interface HealthOptions {
  /** Throws when the store cannot do its work now. */
  check: () => Promise<void>
  /** Whether the clock of this node is near enough to that of the store; it is where nothing is given. */
  isClockUsable?: (() => boolean) | undefined
  now: () => number
}

const rememberMs = 1_000
const Status = Type.Object({ status: Type.String({ enum: ['ok'] }) })

/** `/livez`: the process answers, no I/O. `/readyz`: the clock is right, and the store answers, asked at most once a second. */
export const health: FastifyPluginAsync<HealthOptions> = async (app, { check, isClockUsable, now }) => {
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
      if (isClockUsable?.() === false) {
        throw new Problem('SERVICE_UNAVAILABLE', 'The clock of this node is wrong', { headers: { 'retry-after': '5' } })
      }
      // Nor remembered for long by a clock that was put back.
      if (Math.abs(now() - asked.at) >= rememberMs) asked = { at: now(), answer: check() }
      await asked.answer.catch((cause) => {
        throw new Problem('SERVICE_UNAVAILABLE', 'The store does not answer', {
          headers: { 'retry-after': '2' },
          cause,
        })
      })
      return { status: 'ok' }
    },
  )
}
