import type { RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { type DocumentOptions, documentOf } from './openapi-document.ts'
import type { Route } from './openapi-operation.ts'
import { plain } from './openapi-schemas.ts'

/**
 * GET /openapi.json: the OpenAPI 3.1 document of all routes that are registered after this plugin. It is made once, at
 * the start, from what the routes declare, so what validates and what is documented cannot differ.
 */
export const openapi = fastifyPlugin<DocumentOptions>(
  async (app, options) => {
    const routes: Route[] = []
    let document = ''
    app.addHook('onRoute', (route) => {
      routes.push(...routesOf(route))
    })
    app.addHook('onReady', async () => {
      document = JSON.stringify(documentOf(routes, options))
    })
    const about = { operationId: 'readOpenapi', summary: 'This document', tags: ['meta'] }
    const content = { 'application/json': { schema: { type: 'object' } } }
    const schema = { ...about, response: { 200: { description: 'OpenAPI 3.1', content } } }
    app.get('/openapi.json', { config: { scope: 'public', cache: 'public' }, schema }, (_request, reply) =>
      reply.type('application/json; charset=utf-8').send(document),
    )
  },
  { name: 'openapi', dependencies: ['authorize', 'conditional'] },
)

/** HEAD and OPTIONS go with every GET and every path: they say nothing of their own. */
function routesOf({ method, url, schema = {}, config = {} }: RouteOptions): Route[] {
  const path = url.replace(/:(\w+)/g, '{$1}')
  const methods = [method].flat().filter((name) => name !== 'HEAD' && name !== 'OPTIONS')
  return methods.map((name) => ({ method: name, path, config, schema: plain(schema) as Route['schema'] }))
}
