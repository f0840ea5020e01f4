import { endpoints } from './auth/configuration.ts'
import { apiScopes, scopes } from './auth/scopes.ts'
import { oauthOperations } from './http/openapi-oauth.ts'
import type { Extra } from './http/openapi-operation.ts'
import { TaskView } from './resources/reports/schemas.ts'
import { eventTypes } from './resources/webhooks/event-types.ts'
import { versions } from './versions.ts'

/** What the OpenAPI document tells besides the facts of the routes. */
export function documentation(baseUrl: string, version: string) {
  return {
    baseUrl,
    version,
    prefixes: versions.v1!.prefixes,
    scopes: Object.fromEntries(apiScopes.map((scope) => [scope, scopes[scope]])),
    schemas: { Task: TaskView },
    extras,
    written: oauthOperations(endpoints),
    events: eventTypes,
  }
}

const duplicate: Extra = { problems: ['DUPLICATE_RESOURCE'] }
const polled: Extra = { headers: ['Retry-After'] }

/** What an operation can answer besides what its route's facts say. */
const extras: Record<string, Extra> = {
  createUser: duplicate,
  replaceUser: duplicate,
  patchUser: duplicate,
  createReport: { problems: ['CALLBACK_URL_BLOCKED', 'RATE_LIMIT_EXCEEDED'] },
  retryReport: { problems: ['TASK_NOT_COMPLETED', 'CALLBACK_URL_BLOCKED', 'RATE_LIMIT_EXCEEDED'] },
  cancelReport: { problems: ['TASK_ALREADY_FINISHED'] },
  readReport: polled,
  readReportStatus: polled,
  downloadReport: { problems: ['TASK_NOT_COMPLETED', 'TASK_FAILED', 'RESULT_EXPIRED'] },
  createWebhook: { problems: ['DUPLICATE_RESOURCE', 'CALLBACK_URL_BLOCKED'] },
  readyz: { problems: ['SERVICE_UNAVAILABLE'] },
}
