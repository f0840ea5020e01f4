import type { Definition } from './definition/service.ts'
import { eventsIn } from './event-shapes.ts'
import { oauthOperations } from './oauth/openapi/endpoints.ts'
import { endpoints } from './oauth/provider/http/endpoints.ts'
import { apiScopes } from './oauth/tokens/scopes.ts'
import type { DocumentOptions, Everywhere } from './openapi/document.ts'
import type { Schema } from './openapi/schemas.ts'
import { TaskView } from './reports/schemas.ts'
import type { VersionStatus } from './versioning/version-of-path.ts'

/**
 * Returns the OpenAPI documents by path: one per served version, and one for the whole service, which covers the first
 * served version and all unversioned routes.
 */
export function documentation(
  definition: Definition,
  lifecycles: readonly VersionStatus[],
  about: { baseUrl: string; version: string },
): Record<string, DocumentOptions> {
  const common = commonFacts(definition)
  const served = lifecycles.filter(({ status, version }) => status !== 'retired' && definition.versions[version])
  const one = (life: VersionStatus | undefined) => ({
    ...common,
    ...about,
    ...(life && { events: eventsIn(definition, life.version) }),
    deprecated: life?.status === 'deprecated',
  })
  const [first] = served
  const prefixes = definition.versions[first?.version ?? '']?.prefixes ?? ['']
  const ofVersions = served.map((life): [string, DocumentOptions] => [
    documentPath(life.version),
    { ...one(life), title: `${definition.info.title} ${life.version}`, prefixes: [`/${life.version}`], whole: false },
  ])
  const main = { ...one(first), title: definition.info.title, prefixes, whole: true }
  return { '/openapi.json': main, ...Object.fromEntries(ofVersions) }
}

const documentPath = (version: string) => `/${version}/openapi.json`

/** Returns the parts of the documents that do not come from the routes. */
function commonFacts({ info, scopes, events, collections, users }: Definition) {
  const ofMachines = apiScopes(scopes).map((scope) => [scope, scopes[scope] as string])
  return {
    info,
    scopes: { machine: Object.fromEntries(ofMachines), person: scopes },
    tags: tags(collections),
    everywhere,
    schemas: { Task: TaskView },
    written: oauthOperations(endpoints, userinfoClaims(users)),
    events,
  }
}

/** The schemas of the user fields that the service adds to userinfo responses. */
function userinfoClaims(users: Definition['users']): Record<string, Schema> {
  const properties = users?.collection.declaration.body.properties ?? {}
  return Object.fromEntries((users?.userinfo ?? []).map((field) => [field, properties[field] as unknown as Schema]))
}

/** The headers and errors that the policies in `app.ts` add to every operation. */
export const everywhere: Everywhere = {
  headers: [
    'X-Request-Id',
    'Cache-Control',
    'Vary',
    'Strict-Transport-Security',
    'X-Content-Type-Options',
    'Referrer-Policy',
    'X-RateLimit-Limit',
    'X-RateLimit-Remaining',
    'X-RateLimit-Reset',
    'RateLimit',
    'RateLimit-Policy',
    'X-Quota-Limit',
    'X-Quota-Remaining',
    'X-Quota-Reset',
    'Server-Timing',
  ],
  problems: ['INVALID_INPUT', 'QUOTA_EXCEEDED', 'RATE_LIMIT_EXCEEDED', 'SERVICE_UNAVAILABLE'],
}

function tags(collections: Definition['collections']): Record<string, string> {
  return {
    ...Object.fromEntries(collections.map(({ declaration: { name, noun } }) => [name, about(noun)])),
    batch: 'Several writes in one transaction',
    reports: 'Files generated from the data in the background: request one, poll or get notified, then download it',
    webhooks: 'URLs to call when an event occurs, and the outcome of each delivery',
    limits: 'Rate limits and quotas of the caller, and their use',
    administration: 'Clients, API keys, invitations, the audit log, API versions and health checks, for administrators',
    oauth: 'The authorization server: OAuth 2.0 and OpenID Connect',
    events: 'The requests that webhooks receive',
    meta: 'Information about the service itself',
  }
}

const about = (noun: string) => `Single ${noun} resources by id, and lists to page through, filter and sort`
