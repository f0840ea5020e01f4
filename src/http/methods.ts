import fastifyPlugin from 'fastify-plugin'
import { Problem } from './problem.ts'

interface Path {
  pattern: RegExp
  methods: Set<string>
  /** Media types that PATCH takes besides application/json. */
  patch?: readonly string[]
}

/**
 * OPTIONS with `Allow`, and with `Accept-Patch` where PATCH is (RFC 5789 §3.1), on every path; 405 + `Allow` for a
 * method the path lacks (RFC 9110 §15.5.6), else 404.
 */
export const methods = fastifyPlugin(
  async (app) => {
    const paths = new Map<string, Path>()
    app.addHook('onRoute', ({ url, method, config }) => {
      const path = paths.get(url) ?? { pattern: toPattern(url), methods: new Set(['OPTIONS']) }
      for (const name of [method].flat()) path.methods.add(name)
      if (method === 'PATCH') path.patch = config?.accepts ?? []
      paths.set(url, path)
    })
    app.setNotFoundHandler((request, reply) => {
      const target = request.url.split('?', 1)[0] as string
      const found = [...paths.values()].filter(({ pattern }) => pattern.test(target))
      if (found.length === 0) throw new Problem('RESOURCE_NOT_FOUND', 'There is nothing at this path')
      const allow = [...new Set(found.flatMap(({ methods }) => [...methods]))].sort().join(', ')
      if (request.method === 'OPTIONS') {
        const patch = found.find((path) => path.patch)?.patch
        if (patch) reply.header('accept-patch', [...patch, 'application/json'].join(', '))
        return reply.code(204).header('allow', allow).send()
      }
      throw new Problem('METHOD_NOT_ALLOWED', `${request.method} is not supported here`, { headers: { allow } })
    })
  },
  { name: 'methods', dependencies: ['errors'] },
)

const toPattern = (url: string) =>
  new RegExp(
    `^${url
      .replace(/[.+?^${}()|[\]\\]/g, '\\$&')
      .replace(/:[A-Za-z]+/g, '[^/]+')
      .replace('*', '.*')}$`,
  )
