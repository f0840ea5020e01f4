import fastifyPlugin from 'fastify-plugin'
import { Problem } from '../problems/problem.ts'
import { isUnrouted } from '../route-config.ts'

interface Path {
  pattern: RegExp
  methods: Set<string>
  /** Media types that PATCH accepts in addition to application/json. */
  patch?: readonly string[]
}

/**
 * Responds to OPTIONS on every path with `Allow`, and with `Accept-Patch` where PATCH is allowed (RFC 5789 §3.1);
 * `OPTIONS *` covers all paths (RFC 9110 §9.3.7). Responds with 405 and `Allow` if the path does not support the method
 * (§15.5.6), and with 404 if no route matches the path. All of these responses are sent before the body is read.
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
    app.addHook('onRequest', (request, reply, done) => {
      if (!isUnrouted(request)) return done()
      const target = request.url.split('?', 1)[0] as string
      const found = pathsAt(paths, target)
      if (found.length === 0) return done(new Problem('RESOURCE_NOT_FOUND', 'No resource exists at this path'))
      const allow = [...new Set(found.flatMap(({ methods }) => [...methods]))].sort().join(', ')
      if (request.method !== 'OPTIONS') {
        const detail = `${request.method} is not supported at this path`
        return done(new Problem('METHOD_NOT_ALLOWED', detail, { headers: { allow } }))
      }
      const patch = found.find((path) => path.patch)?.patch
      if (patch) reply.header('accept-patch', [...patch, 'application/json'].join(', '))
      reply.code(204).header('allow', allow).send()
    })
  },
  { name: 'methods', dependencies: ['errorHandler'] },
)

/** Returns the literal path if it exists; otherwise, the parameterized paths that match, or all paths for `*`. */
function pathsAt(paths: ReadonlyMap<string, Path>, target: string): Path[] {
  const exact = paths.get(target)
  return exact ? [exact] : [...paths.values()].filter(({ pattern }) => target === '*' || pattern.test(target))
}

const toPattern = (url: string) =>
  new RegExp(
    `^${url
      .replace(/[.+?^${}()|[\]\\]/g, '\\$&')
      .replace(/:[A-Za-z]+/g, '[^/]+')
      .replace('*', '.*')}$`,
  )
