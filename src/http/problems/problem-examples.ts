import { problemBody } from './error-handler.ts'
import { type FieldError, Problem, type ProblemCode } from './problem.ts'

/** The parts of an example response that depend on the error code. */
interface Example {
  detail: string
  errors?: FieldError[]
  headers?: Record<string, string>
}

const bearer = 'Bearer realm="plinth"'

/** An example for each error code, with the messages that the service sends. */
const examples: Record<ProblemCode, Example> = {
  INVALID_INPUT: {
    detail: 'The query is malformed',
    errors: [{ field: 'limit', message: 'must be integer' }],
  },
  MISSING_REQUIRED_FIELD: {
    detail: 'Missing required fields: email',
    errors: [{ field: 'email', message: 'is required' }],
  },
  AUTH_REQUIRED: {
    detail: 'Send an access token in the Authorization header: Bearer <ACCESS_TOKEN>',
    headers: { 'WWW-Authenticate': bearer },
  },
  AUTH_TOKEN_EXPIRED: {
    detail: 'Get a new access token from the token endpoint',
    headers: { 'WWW-Authenticate': `${bearer}, error="invalid_token"` },
  },
  AUTH_TOKEN_INVALID: {
    detail: 'The access token was not issued for this service, was altered or was revoked',
    headers: { 'WWW-Authenticate': `${bearer}, error="invalid_token"` },
  },
  ACCESS_DENIED: {
    detail: 'This needs an access token with the scope products:write',
    headers: { 'WWW-Authenticate': `${bearer}, error="insufficient_scope", scope="products:write"` },
  },
  PERMISSION_DENIED: { detail: 'The owner of this webhook does not have the scope that the event requires' },
  QUOTA_EXCEEDED: { detail: 'The monthly quota of 10000000 requests is used up: it resets on 2026-04-01' },
  RESOURCE_NOT_FOUND: { detail: 'There is no product 7' },
  METHOD_NOT_ALLOWED: {
    detail: 'DELETE is not supported at this path',
    headers: { Allow: 'GET, HEAD, OPTIONS, POST' },
  },
  NOT_ACCEPTABLE: { detail: 'The response is available only as application/json' },
  REQUEST_TIMEOUT: { detail: 'The request did not arrive in time', headers: { Connection: 'close' } },
  DUPLICATE_RESOURCE: {
    detail: 'Another user has this email',
    errors: [{ field: 'email', message: 'is in use already' }],
  },
  RESOURCE_IN_USE: {
    detail: 'The customer 7 is referred to by 3 invoices',
    errors: [{ field: 'id', message: 'is referred to by 3 invoices' }],
  },
  STATE_CONFLICT: { detail: 'The invoice 7 cannot be sent in its present state' },
  RESOURCE_LOCKED: { detail: 'The invoice 7 cannot be changed or deleted in its present state' },
  IDEMPOTENCY_IN_PROGRESS: {
    detail: 'A request with this Idempotency-Key is still in progress',
    headers: { 'Retry-After': '1' },
  },
  TASK_NOT_COMPLETED: { detail: 'The result is not ready yet', headers: { 'Retry-After': '2' } },
  TASK_FAILED: { detail: 'The task has failed and has no result' },
  TASK_ALREADY_FINISHED: { detail: 'The task has already ended: there is nothing to cancel' },
  WEBHOOK_NOT_ACTIVE: { detail: 'The webhook is paused: enable it first' },
  WEBHOOK_LIMIT_REACHED: { detail: 'You already have 1000 webhooks, the maximum: delete one first' },
  SECRET_ROTATION_IN_PROGRESS: {
    detail:
      'The previous secret is still valid until 2026-03-02T12:00:00.000Z: wait until then, or set `immediate` to end both',
  },
  LAST_ADMINISTRATOR: {
    detail: 'This is the last administrator who can log in: another one must have a password first',
  },
  BACKUPS_NOT_CONFIGURED: {
    detail: "Backups are not configured: set PLINTH_BACKUP to a schedule, such as '0 3 * * *'",
  },
  BACKUP_IN_PROGRESS: { detail: 'Another backup is waiting or in progress', headers: { 'Retry-After': '15' } },
  BACKUP_UNAVAILABLE: {
    detail:
      'plinth-20261123T030004Z.backup is in file:/data/backups on node-a 4242, which this node (node-b) cannot read',
  },
  BACKUP_NOT_ENCRYPTED: { detail: 'The backup is not encrypted, and contains the master key' },
  CHECK_IN_PROGRESS: { detail: 'This backup is being checked', headers: { 'Retry-After': '5' } },
  RESULT_EXPIRED: { detail: 'The result has expired: request the report again' },
  VERSION_RETIRED: {
    detail: 'API version v1 is no longer available: use v2',
    headers: { Link: '</v2/users>; rel="successor-version"' },
  },
  PRECONDITION_FAILED: { detail: 'The resource does not meet the preconditions of the request' },
  PAYLOAD_TOO_LARGE: { detail: 'The body is larger than the service accepts' },
  URI_TOO_LONG: { detail: 'The request target may have at most 8192 characters' },
  UNSUPPORTED_MEDIA_TYPE: { detail: 'Send the body as application/json', headers: { Accept: 'application/json' } },
  RANGE_NOT_SATISFIABLE: { detail: 'The result has 4096 bytes', headers: { 'Content-Range': 'bytes */4096' } },
  EXPECTATION_FAILED: { detail: 'The only supported expectation is 100-continue' },
  VALIDATION_ERROR: {
    detail: 'Some fields break a rule',
    errors: [{ field: 'price', message: 'must be >= 0' }],
  },
  IDEMPOTENCY_KEY_REUSED: { detail: 'This Idempotency-Key was already used with a different body' },
  CALLBACK_URL_BLOCKED: {
    detail: 'The callback address must use https',
    errors: [{ field: 'callbackUrl', message: 'must use https' }],
  },
  PRECONDITION_REQUIRED: { detail: 'Send If-Match with the ETag of the revision that you read' },
  RATE_LIMIT_EXCEEDED: { detail: 'Too many requests: wait 15 seconds', headers: { 'Retry-After': '15' } },
  HEADERS_TOO_LARGE: { detail: 'The request line and headers together may have at most 16 KiB' },
  INTERNAL_ERROR: { detail: 'The error was logged with this request id' },
  NOT_IMPLEMENTED: { detail: 'The method is unknown' },
  SERVICE_UNAVAILABLE: {
    detail: 'The service is overloaded, try again later',
    headers: { 'Retry-After': '2' },
  },
}

const common = { requestId: '5f0c2c1e-9f0e-4a53-8d0c-3f3f6e6e2b11', timestamp: '2026-03-01T12:00:00.000Z' }

/** Returns an example HTTP response with this error code: status, headers specific to the code, and body. */
export function exampleResponse(baseUrl: string, code: ProblemCode): string {
  const { detail, errors, headers = {} } = examples[code]
  const isLimit = code === 'RATE_LIMIT_EXCEEDED' || code === 'QUOTA_EXCEEDED'
  const problem = new Problem(code, detail, errors ? { errors } : {})
  const type = isLimit ? 'application/json' : 'application/problem+json'
  const lines = Object.entries({ 'Content-Type': type, ...headers }).map((field) => field.join(': '))
  const body = isLimit ? { error: detail } : problemBody(problem, baseUrl, common)
  return [`HTTP/1.1 ${problem.status}`, ...lines, '', JSON.stringify(body, null, 2)].join('\n')
}
