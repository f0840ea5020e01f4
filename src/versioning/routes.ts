import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { Fields } from '../http/pagination.ts'
import { partialSchema } from '../http/partial-schema.ts'
import type { VersionStatus } from './version-of-path.ts'

/** The number of a client's calls to a version, and the time of the last call. */
export interface Calls {
  version: string
  /** Null for calls without a valid token. */
  clientId: string | null
  calls: number
  lastCallAt: string
}

export interface VersionListOptions {
  lives: readonly VersionStatus[]
  /** Returns the callers of deprecated versions, most recent first. */
  calls: () => Promise<readonly Calls[]>
}

const instant = '2026-12-01T00:00:00.000Z'
const date = (description: string) =>
  Type.Optional(Type.String({ format: 'date-time', description, examples: [instant] }))

const Callers = Type.Array(
  Type.Object({
    clientId: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'Null for the calls without a valid access token, taken together',
      examples: ['partner'],
    }),
    calls: Type.Integer({ minimum: 1, examples: [42] }),
    lastCallAt: Type.String({ format: 'date-time' }),
  }),
  { description: 'Its callers since it was deprecated, latest first; updated every few seconds' },
)

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

/** Serves GET /api/versions: each version's lifecycle, and the remaining callers of deprecated and retired versions. */
export const versionList: FastifyPluginAsyncTypebox<VersionListOptions> = async (app, options) => {
  const about = { tags: ['administration'], operationId: 'listVersions', summary: 'List the API versions' }
  const querystring = Type.Object({
    fields: Fields,
  })
  const schema = { ...about, querystring, response: { 200: Type.Array(VersionView) } }
  const config = { scope: 'admin', cache: 'private', fields: true } as const
  app.get('/api/versions', { config, schema }, async () => versionViews(options.lives, await options.calls()))
}

const withoutVersion = ({ clientId, calls, lastCallAt }: Calls) => ({ clientId, calls, lastCallAt })

/** Returns each version with its callers; omits null members. */
export function versionViews(lives: readonly VersionStatus[], calls: readonly Calls[]) {
  return lives.map(({ version, status, deprecatedAt, sunsetAt, successor }) => ({
    ...{ version, status },
    ...(deprecatedAt !== null && { deprecatedAt }),
    ...(sunsetAt !== null && { sunsetAt }),
    ...(successor !== null && { successor }),
    // A version that is active again has no callers listed.
    clients: status === 'active' ? [] : calls.filter((one) => one.version === version).map(withoutVersion),
  }))
}
