import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { Fields } from '../http/pagination.ts'
import { partialSchema } from '../http/partial-schema.ts'
import { Problem } from '../http/problems/problem.ts'
import { requesterOf } from '../http/requester.ts'
import type { Database } from '../storage/database.ts'
import { retirementPlan } from './retirement-plan.ts'
import type { VersionStatus } from './version-of-path.ts'

/** The number of a client's calls to a version, and the time of the last call. */
export interface VersionCallCount {
  version: string
  /** The id of the calling client; null for calls without a valid token. */
  clientId: string | null
  calls: number
  lastCallAt: string
}

export interface VersionListOptions {
  db: Database
  now: () => number
  lifecycles: readonly VersionStatus[]
  /** Returns the callers of each version since it was deprecated, most recent first. */
  calls: () => Promise<readonly VersionCallCount[]>
}

const instant = '2026-12-01T00:00:00.000Z'
const date = (description: string) =>
  Type.Optional(Type.String({ format: 'date-time', description, examples: [instant] }))

const Caller = {
  clientId: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'Null for the calls without a valid access token, taken together',
    examples: ['partner'],
  }),
  calls: Type.Integer({ minimum: 1, examples: [42] }),
  lastCallAt: Type.String({ format: 'date-time' }),
}

const Callers = Type.Array(Type.Object(Caller), {
  description: 'Its callers since it was deprecated, latest first; updated every few seconds',
})

const VersionView = partialSchema(
  Type.Object({
    version: Type.String({ examples: ['v1'] }),
    status: Type.String({ enum: ['active', 'deprecated', 'retired'], examples: ['deprecated'] }),
    deprecatedAt: date('When it was deprecated'),
    sunsetAt: date('The earliest date at which it may be retired'),
    successor: Type.Optional(Type.String({ description: 'The version to migrate to', examples: ['v2'] })),
    clients: Callers,
  }),
)

const RetirementView = partialSchema(
  Type.Object({
    version: Type.String({ examples: ['v1'] }),
    status: Type.String({ enum: ['active', 'deprecated', 'retired'], examples: ['deprecated'] }),
    successor: Type.Optional(
      Type.String({ description: 'The version to which 410 responses refer', examples: ['v2'] }),
    ),
    unprefixed: Type.Boolean({ description: 'Whether paths without a prefix belong to it', examples: [true] }),
    setting: Type.Optional(
      Type.String({
        description: 'The value of PLINTH_VERSIONS that retires it; absent if no other version is active',
        examples: ['{"v1":{"status":"retired","successor":"v2"}}'],
      }),
    ),
    countedSince: date('Since when its calls have been counted; absent if it is not deprecated'),
    clients: Type.Array(Type.Object({ ...Caller, name: Type.Optional(Type.String({ examples: ['Partner'] })) }), {
      description: 'Its callers since then, latest first, at most 1,000',
    }),
    webhooks: Type.Array(
      Type.Object({
        id: Type.String({ examples: ['whk_3q2-7wAAAAAAAAAAAAAAAA'] }),
        event: Type.String({ examples: ['report.completed'] }),
        status: Type.String({ enum: ['active', 'paused', 'disabled'], examples: ['active'] }),
        ownerClient: Type.String({ examples: ['partner'] }),
        ownerSubject: Type.String({ examples: ['partner'] }),
        ownerName: Type.Optional(Type.String({ description: "The client's name", examples: ['Partner'] })),
      }),
      {
        description:
          'Webhooks registered with it, at most 1,000. They continue, with the field names of the next version',
      },
    ),
    results: Type.Integer({
      minimum: 0,
      description: 'Report results that can still be downloaded at its paths; 10,000 stands for more',
      examples: [3],
    }),
  }),
)

/**
 * Serves GET /api/versions: each version's lifecycle, and the remaining callers of deprecated and retired versions.
 * Also serves GET /api/versions/{version}/retirement, a dry run of a version's retirement.
 */
export const versionList: FastifyPluginAsyncTypebox<VersionListOptions> = async (app, options) => {
  const about = { tags: ['administration'], operationId: 'listVersions', summary: 'List the API versions' }
  const querystring = Type.Object({
    fields: Fields,
  })
  const schema = { ...about, querystring, response: { 200: Type.Array(VersionView) } }
  const config = { scope: 'admin', cache: 'private', fields: true } as const
  app.get('/api/versions', { config, schema }, async () => versionViews(options.lifecycles, await options.calls()))
  const ofPlan = {
    tags: ['administration'],
    operationId: 'planRetirement',
    summary: 'Show what a retirement would stop',
  }
  const params = Type.Object({ version: Type.String({ maxLength: 10, description: 'The version', examples: ['v1'] }) })
  const planSchema = { ...ofPlan, params, querystring, response: { 200: RetirementView } }
  app.get('/api/versions/:version/retirement', { config, schema: planSchema }, async (request, reply) => {
    const plan = await retirementPlan(options, request.params.version, requesterOf(request, reply))
    if (plan !== undefined) return plan
    const known = options.lifecycles.map(({ version }) => version).join(', ')
    throw new Problem('RESOURCE_NOT_FOUND', `There is no such version; use one of ${known}`)
  })
}

const withoutVersion = ({ clientId, calls, lastCallAt }: VersionCallCount) => ({ clientId, calls, lastCallAt })

/** Returns each version with its callers; omits null members. */
export function versionViews(lifecycles: readonly VersionStatus[], calls: readonly VersionCallCount[]) {
  return lifecycles.map(({ version, status, deprecatedAt, sunsetAt, successor }) => ({
    ...{ version, status },
    ...(deprecatedAt !== null && { deprecatedAt }),
    ...(sunsetAt !== null && { sunsetAt }),
    ...(successor !== null && { successor }),
    // An active version may still have counts from an earlier deprecation, which are not listed.
    clients: status === 'active' ? [] : calls.filter((one) => one.version === version).map(withoutVersion),
  }))
}
