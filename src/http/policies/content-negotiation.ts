import type { FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { accepts } from '../headers/accept.ts'
import { codingOf } from '../headers/content-encoding.ts'
import { Problem } from '../problems/problem.ts'
import { routeConfig } from '../route-config.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Media types of the answers, without parameters; none for a route that answers whatever Accept says. Without it
     * they are those of the declared answers, which are JSON where they name no type.
     */
    produces?: readonly string[]
  }
}

const json = 'application/json'

/**
 * 406 for a request that no answer of its route would satisfy, before anything is done: by Accept, and on reads by an
 * Accept-Encoding that refuses plain content and every coding we have (RFC 9110 §12.5.1, §12.5.3). Errors are sent
 * whatever these headers say. 417 for an Expect that asks for more than 100-continue (§10.1.1).
 */
export const acceptable = fastifyPlugin(
  async (app) => {
    app.addHook('onRoute', (route) => {
      const produces = route.config?.produces ?? declaredTypes(route)
      // JSON alone is what nearly every route answers with: saying nothing of it keeps the judgement short.
      if (produces.join() !== json) route.config = { ...route.config, produces }
    })
    app.addHook('onRequest', (request, _reply, done) => {
      const { headers } = request
      if (headers.expect !== undefined && isUnmet(headers.expect, request.raw.httpVersion)) {
        return done(new Problem('EXPECTATION_FAILED', 'The only expectation that can be met is 100-continue'))
      }
      const encoding = headers['accept-encoding']
      if (encoding?.includes('=0') && refusesPlain.test(encoding) && lacksCoding(request, encoding)) {
        return done(new Problem('NOT_ACCEPTABLE', 'The answer has none of the codings that Accept-Encoding allows'))
      }
      const { accept } = headers
      if (accept === undefined || accept === '*/*') return done()
      const config = routeConfig(request)
      if (config.scope === 'own' || (accept === json && config.produces === undefined)) return done()
      done(judge(accept, config.produces))
    })
  },
  { name: 'acceptable', dependencies: ['authorize', 'methods'] },
)

/** HTTP/1.0 has no expectations: there the field is ignored. */
const isUnmet = (expectation: string, version: string) =>
  version !== '1.0' && !/(^|\W)100-continue(\W|$)/i.test(expectation)

function judge(accept: string, produces: readonly string[] = [json]): Problem | undefined {
  if (produces.length === 0 || produces.some((type) => accepts(accept, type))) return
  return new Problem('NOT_ACCEPTABLE', `The answer can be had as ${produces.join(' or ')}`)
}

/** A first look, as hardly any client says so. */
const refusesPlain = /(identity|\*)\s*;\s*q=0/i

/** Answers that are not kept are not compressed: they are plain or nothing. */
function lacksCoding({ method, routeOptions: { config } }: FastifyRequest, encoding: string): boolean {
  if ((method !== 'GET' && method !== 'HEAD') || config.scope === 'own' || config.produces?.length === 0) return false
  const { coding, identity } = codingOf(encoding)
  return !identity && (coding === null || (config.cache ?? 'none') === 'none')
}

type Answers = Record<string, { content?: Record<string, unknown> }>

/** The media types of the declared successes; none for a removal, which answers with nothing. */
function declaredTypes({ schema, method }: RouteOptions): string[] {
  const answers = Object.entries((schema?.response ?? {}) as Answers).filter(([status]) => status.startsWith('2'))
  if (answers.length === 0) return [method].flat().includes('DELETE') ? [] : [json]
  if (answers.every(([status]) => status === '204')) return []
  const types = answers.flatMap(([, { content }]) => (content ? Object.keys(content) : [json]))
  return [...new Set(types.map((type) => type.split(';', 1)[0] as string))]
}
