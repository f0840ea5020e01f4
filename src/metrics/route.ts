import type { FastifyPluginAsync } from 'fastify'
import { Registry } from 'prom-client'
import { Type } from 'typebox'

export interface MetricsRouteOptions {
  /** Returns all metrics in the Prometheus text format. */
  read: () => Promise<string>
}

/** The media type of the Prometheus text format. */
export const metricsType = Registry.PROMETHEUS_CONTENT_TYPE

/**
 * Serves GET /metrics to administrators. This request is never rejected because of overload, since its response is
 * needed to diagnose overload.
 */
export const metricsRoute: FastifyPluginAsync<MetricsRouteOptions> = async (app, { read }) => {
  const about = { operationId: 'readMetrics', summary: 'Metrics in the Prometheus text format', tags: ['meta'] }
  const example =
    '# HELP plinth_database_up 1 if the database responds\n# TYPE plinth_database_up gauge\nplinth_database_up 1\n'
  const content = { 'text/plain': { schema: Type.String({ examples: [example] }) } }
  const schema = { ...about, response: { 200: { description: 'The metrics', content } } }
  const config = { scope: 'admin', cache: 'none', shed: 'never' } as const
  app.get('/metrics', { config, schema }, async (_request, reply) => reply.type(metricsType).send(await read()))
}
