import { endpoints } from './auth/configuration.ts'
import { allScopes, apiScopes, type Scope, scopes } from './auth/scopes.ts'
import type { DocumentOptions } from './http/openapi-document.ts'
import type { Everywhere } from './http/openapi-everywhere.ts'
import { oauthOperations } from './http/openapi-oauth.ts'
import { TaskView } from './resources/reports/schemas.ts'
import { eventTypes } from './resources/webhooks/event-types.ts'
import { versions } from './versions.ts'

/** What the OpenAPI document tells besides the facts of the routes. */
export function documentation(baseUrl: string, version: string): DocumentOptions {
  const described = (names: readonly Scope[]) => Object.fromEntries(names.map((scope) => [scope, scopes[scope]]))
  return {
    baseUrl,
    version,
    prefixes: versions.v1!.prefixes,
    scopes: { machine: described(apiScopes), person: described(allScopes) },
    tags: tags(),
    everywhere,
    schemas: { Task: TaskView },
    written: oauthOperations(endpoints),
    events: eventTypes,
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
  ],
  problems: ['INVALID_INPUT'],
}

function tags(): Record<string, string> {
  const collections = Object.values(versions).flatMap((version) => version.collections)
  return {
    ...Object.fromEntries(collections.map(({ declaration: { path, noun } }) => [path.slice(1), about(noun)])),
    reports: 'Files made of the data in the background: ask, watch or be called, then download',
    webhooks: 'Who is called when something happens, with what came of each call',
    oauth: 'The authorization server: OAuth 2.0 and OpenID Connect',
    meta: 'The service about itself',
  }
}

const about = (noun: string) => `Each ${noun} by its id, and lists to page through, filter and sort`
