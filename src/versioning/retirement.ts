import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { Problem } from '../http/problems/problem.ts'
import { announceDeprecation } from './deprecation.ts'
import { successorLink, successorPath, type VersionStatus, versionMatcher } from './version-of-path.ts'

/**
 * Responds with 410 to every request to a retired version, regardless of the method and the caller. A Link refers to
 * the same path in the successor (RFC 9110 §15.5.11). Runs after `requestIntegrity`, which rejects ambiguous requests.
 */
export const retirement = fastifyPlugin<{ lifecycles: readonly VersionStatus[] }>(
  async (app, { lifecycles }) => {
    const gone = retiredProblem(lifecycles)
    if (gone === undefined) return
    app.addHook('onRequest', ({ raw }, _reply, done) => done(gone(raw.url as string)))
  },
  { name: 'retirement', dependencies: ['errorHandler', 'requestIntegrity'] },
)

/**
 * Creates the function that returns a 410 problem for request targets in retired versions, and undefined for all
 * others. Returns undefined if no version is retired.
 */
export function retiredProblem(
  lifecycles: readonly VersionStatus[],
): ((target: string) => Problem | undefined) | undefined {
  const matchVersion = versionMatcher(lifecycles, 'retired')
  if (matchVersion === undefined) return undefined
  return (target) => {
    const match = matchVersion(target)
    return match && refusal(match.life, successorPath(match))
  }
}

function refusal({ version, successor }: VersionStatus, path: string | null): Problem {
  const detail = `API version ${version} is no longer available: use ${successor}`
  return new Problem('VERSION_RETIRED', detail, { headers: path === null ? {} : { link: successorLink(path) } })
}

/** Returns a function that applies the version policies to requests that the router could not parse. */
export function versionRefusals(lifecycles: readonly VersionStatus[]) {
  const [deprecated, gone] = [announceDeprecation(lifecycles), retiredProblem(lifecycles)]
  return (request: FastifyRequest, reply: FastifyReply): Problem | undefined => {
    deprecated?.(request, reply)
    return gone?.(request.url)
  }
}
