import type { RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { type Static, Type } from 'typebox'
import { documentedRules } from '../http/partial-schema.ts'
import { type DocumentOptions, documentOf } from './document.ts'
import type { Route } from './operation-types.ts'
import { plain } from './schemas.ts'

export interface OpenapiOptions {
  /** The documents, by the paths that serve them. */
  documents: Readonly<Record<string, DocumentOptions>>
}

/**
 * Serves GET /openapi.json and the document of each version: OpenAPI 3.1 documents for the routes registered after this
 * plugin. Each document is built on its first request, from the schemas that also validate requests, so documentation
 * and validation cannot differ.
 */
export const openapi = fastifyPlugin<OpenapiOptions>(
  async (app, { documents }) => {
    const registered: RouteOptions[] = []
    app.addHook('onRoute', (route) => {
      registered.push({ ...route })
    })
    const routes = lazily(() => registered.flatMap(routesOf))
    const about = { operationId: 'readOpenapi', summary: 'This document', tags: ['meta'] }
    const content = { 'application/json': { schema: { type: 'object' } } }
    const schema = { ...about, querystring: Variant, response: { 200: { description: 'OpenAPI 3.1', content } } }
    for (const [path, options] of Object.entries(documents)) {
      const whole = lazily(() => JSON.stringify(documentOf(routes(), options)))
      const withoutWebhooks = lazily(() => JSON.stringify(documentOf(routes(), { ...options, events: {} })))
      app.get<{ Querystring: Static<typeof Variant> }>(
        path,
        { config: { scope: 'public', cache: 'public' }, schema },
        ({ query }, reply) => {
          const text = query.webhooks === 'false' ? withoutWebhooks() : whole()
          return reply.type('application/json; charset=utf-8').send(text)
        },
      )
    }
  },
  { name: 'openapi', dependencies: ['authorize', 'listEnvelope', 'conditional'] },
)

const Variant = Type.Object({
  webhooks: Type.Optional(
    Type.String({
      enum: ['true', 'false'],
      description: '`false` omits the webhooks, for generators that do not support them',
      ...documentedRules({ default: 'true' }),
    }),
  ),
})

/** Caches the result of the first call. */
function lazily<T>(make: () => T): () => T {
  let cached: T | undefined
  return () => {
    cached ??= make()
    return cached
  }
}

/**
 * Returns the routes to document. HEAD and OPTIONS are not documented: every GET implies HEAD, and every path implies
 * OPTIONS.
 */
function routesOf({ method, url, schema = {}, config = {} }: RouteOptions): Route[] {
  const path = url.replace(/:(\w+)/g, '{$1}')
  const methods = [method].flat().filter((name) => name !== 'HEAD' && name !== 'OPTIONS')
  return methods.map((name) => ({ method: name, path, config, schema: plain(schema) as Route['schema'] }))
}
