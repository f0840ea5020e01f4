import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { Problem } from '../http/problems/problem.ts'
import { type areas, statuses } from './check.ts'
import type { ReadHealth } from './reader.ts'

const StatusText = (description: string) =>
  Type.Unsafe<(typeof statuses)[number]>({ type: 'string', enum: [...statuses], description, examples: ['warn'] })

const CheckView = Type.Object({
  id: Type.String({ description: 'Permanent, so that monitoring can refer to it', examples: ['tls.expiry'] }),
  area: Type.Unsafe<(typeof areas)[number]>({ type: 'string', examples: ['TLS'] }),
  title: Type.String({ examples: ['Certificate expiry'] }),
  status: StatusText('The outcome of this check'),
  detail: Type.String({ examples: ['/etc/plinth/chain.pem expires on 2026-12-20'] }),
  cure: Type.Optional(
    Type.String({
      description: 'A command or a setting that corrects it; present unless the check passed',
      examples: ['Renew /etc/plinth/chain.pem, and restart the service'],
    }),
  ),
})

/** The results of the checks. */
export const HealthView = Type.Object({
  status: StatusText('The worst status of the checks'),
  checkedAt: Type.String({ format: 'date-time', description: 'When the checks were made, at most ten seconds ago' }),
  checks: Type.Array(CheckView, { description: 'The checks that apply to this service; more may be added' }),
})

/**
 * Serves GET /api/health: the checks of `plinth doctor`, without the deep ones. The status is 200 even if a check
 * fails.
 */
export const healthReport: FastifyPluginAsyncTypebox<{ readHealth: ReadHealth }> = async (app, { readHealth }) => {
  const about = {
    tags: ['administration'],
    operationId: 'readHealth',
    summary: 'Check the settings, the data and the work of this node',
  }
  const schema = { ...about, response: { 200: HealthView } }
  const config = { scope: 'admin', cache: 'none', shed: 'never' } as const
  app.get('/api/health', { config, schema }, async () => {
    const report = await readHealth()
    if (report !== null) return report
    throw new Problem('SERVICE_UNAVAILABLE', 'The checks take too long', { headers: { 'retry-after': '10' } })
  })
}
