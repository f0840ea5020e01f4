import { endpoints, interactionPath, invitationPath } from './auth/endpoints.ts'
import { apiScopes } from './auth/scopes.ts'
import type { Definition } from './definition.ts'
import type { DocumentOptions } from './http/openapi-document.ts'
import type { Everywhere } from './http/openapi-everywhere.ts'
import { oauthOperations } from './http/openapi-oauth.ts'
import { TaskView } from './resources/reports/schemas.ts'

/** What the OpenAPI document tells besides the facts of the routes. */
export function documentation(definition: Definition, baseUrl: string, version: string): DocumentOptions {
  const { versions, scopes, events, collections } = definition
  const ofMachines = apiScopes(scopes).map((scope) => [scope, scopes[scope] as string])
  return {
    baseUrl,
    version,
    prefixes: versions.v1?.prefixes ?? [],
    scopes: { machine: Object.fromEntries(ofMachines), person: scopes },
    tags: tags(collections),
    everywhere,
    schemas: { Task: TaskView },
    written: oauthOperations({ ...endpoints, interaction: interactionPath, invitation: invitationPath }),
    events,
  }
}

/** What the policies of `app.ts` add to every operation. */
const everywhere: Everywhere = {
  requestHeaders: ['X-Request-Id'],
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
    reports: 'Files made of the data in the background: ask, watch or be called, then download',
    webhooks: 'Who is called when something happens, with what came of each call',
    limits: 'How much the caller may do, and has done',
    administration: 'Clients, API keys and the audit log, for administrators',
    oauth: 'The authorization server: OAuth 2.0 and OpenID Connect',
    meta: 'The service about itself',
  }
}

const about = (noun: string) => `Each ${noun} by its id, and lists to page through, filter and sort`
