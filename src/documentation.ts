import { endpoints } from './auth/configuration.ts'
import { apiScopes } from './auth/scopes.ts'
import type { Definition } from './definition.ts'
import { oauthOperations } from './http/openapi-oauth.ts'
import type { Extra } from './http/openapi-operation.ts'
import type { Declaration } from './resources/declaration.ts'
import { capital } from './resources/list-query.ts'
import { TaskView } from './resources/reports/schemas.ts'

/** What the OpenAPI document tells besides the facts of the routes. */
export function documentation({ versions, scopes, events, collections }: Definition, baseUrl: string, version: string) {
  return {
    baseUrl,
    version,
    prefixes: versions.v1?.prefixes ?? [],
    scopes: Object.fromEntries(apiScopes(scopes).map((scope) => [scope, scopes[scope] as string])),
    schemas: { Task: TaskView },
    extras: { ...Object.assign({}, ...collections.map(({ declaration }) => duplicates(declaration))), ...extras },
    written: oauthOperations(endpoints),
    events,
  }
}

const duplicate: Extra = { problems: ['DUPLICATE_RESOURCE'] }

/** What writes of a resource with unique fields can answer. */
function duplicates({ noun, unique }: Declaration): Record<string, Extra> {
  if (unique.length === 0) return {}
  return Object.fromEntries(['create', 'replace', 'patch'].map((verb) => [verb + capital(noun), duplicate]))
}

const polled: Extra = { headers: ['Retry-After'] }

/** What an operation can answer besides what its route's facts say. */
const extras: Record<string, Extra> = {
  createReport: { problems: ['CALLBACK_URL_BLOCKED'] },
  readReport: polled,
  readReportStatus: polled,
  downloadReport: { problems: ['TASK_NOT_COMPLETED', 'TASK_FAILED', 'RESULT_EXPIRED'] },
  createWebhook: { problems: ['DUPLICATE_RESOURCE', 'CALLBACK_URL_BLOCKED'] },
  readyz: { problems: ['SERVICE_UNAVAILABLE'] },
}
