import type { RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { type DocumentOptions, documentOf } from './openapi-document.ts'
import type { Route } from './openapi-operation.ts'
import { plain } from './openapi-schemas.ts'

export interface OpenapiOptions {
  /** Each document with the path where it is served. */
  documents: Readonly<Record<string, DocumentOptions>>
}

/**
 * GET /openapi.json and its like for each version: the OpenAPI 3.1 documents of the routes that are registered after
 * this plugin. Each is made when it is first asked for, from what the routes declare, so what validates and what is
 * documented cannot differ.
 */
export const openapi = fastifyPlugin<OpenapiOptions>(
  async (app, { documents }) => {
    const routes: Route[] = []
    app.addHook('onRoute', (route) => {
      routes.push(...routesOf(route))
    })
    const about = { operationId: 'readOpenapi', summary: 'This document', tags: ['meta'] }
    const content = { 'application/json': { schema: { type: 'object' } } }
    const schema = { ...about, response: { 200: { description: 'OpenAPI 3.1', content } } }
    for (const [path, options] of Object.entries(documents)) {
      let document: string | undefined
      app.get(path, { config: { scope: 'public', cache: 'public' }, schema }, (_request, reply) => {
        document ??= JSON.stringify(documentOf(routes, options))
        return reply.type('application/json; charset=utf-8').send(document)
      })
    }
  },
  { name: 'openapi', dependencies: ['authorize', 'enclose', 'conditional'] },
)

/** HEAD and OPTIONS go with every GET and every path: they say nothing of their own. */
function routesOf({ method, url, schema = {}, config = {} }: RouteOptions): Route[] {
  const path = url.replace(/:(\w+)/g, '{$1}')
  const methods = [method].flat().filter((name) => name !== 'HEAD' && name !== 'OPTIONS')
  return methods.map((name) => ({ method: name, path, config, schema: plain(schema) as Route['schema'] }))
}
