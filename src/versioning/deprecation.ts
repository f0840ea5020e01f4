import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { addLink } from '../http/headers/vary.ts'
import { successorLink, successorPath, type VersionStatus, versionMatcher } from './version-of-path.ts'

export interface DeprecationOptions {
  /** All versions with their lifecycle status. If no version is deprecated, the plugin adds no hook. */
  lifecycles: readonly VersionStatus[]
}

/**
 * Announces a version's deprecation in each of its responses: `Deprecation` (RFC 9745, or `true` as required by the v1
 * contract), `Sunset` (RFC 8594) and a `Link` to the same path in the successor (RFC 5829).
 */
export const deprecation = fastifyPlugin<DeprecationOptions>(
  async (app, { lifecycles }) => {
    const announce = announceDeprecation(lifecycles)
    if (announce === undefined) return
    app.addHook('onRequest', (request, reply, done) => {
      announce(request, reply)
      done()
    })
  },
  { name: 'deprecation', dependencies: ['https'] },
)

/**
 * Creates the function that adds the headers to deprecated versions' responses; undefined if no version is deprecated.
 */
export function announceDeprecation(lifecycles: readonly VersionStatus[]) {
  const matchVersion = versionMatcher(lifecycles, 'deprecated')
  if (matchVersion === undefined) return undefined
  const headers = new Map(lifecycles.map((life) => [life, headersOf(life)]))
  return ({ raw }: Pick<FastifyRequest, 'raw'>, reply: FastifyReply): void => {
    const match = matchVersion(raw.url as string)
    if (match === undefined) return
    reply.headers(headers.get(match.life) as Record<string, string>)
    const successor = successorPath(match)
    if (successor !== null) addLink(reply, successorLink(successor))
  }
}

function headersOf({ deprecation, deprecatedAt, sunsetAt }: VersionStatus): Record<string, string> {
  const since = deprecatedAt === null ? 'true' : `@${Math.floor(Date.parse(deprecatedAt) / 1_000)}`
  return {
    deprecation: deprecation === 'true' ? 'true' : since,
    ...(sunsetAt !== null && { sunset: new Date(sunsetAt).toUTCString() }),
  }
}
