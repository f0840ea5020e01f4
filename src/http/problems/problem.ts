/** The registry of error codes, used by responses, problem pages and the OpenAPI document. */
export const problems = {
  INVALID_INPUT: [400, 'The request is malformed'],
  MISSING_REQUIRED_FIELD: [400, 'A required field is missing'],
  AUTH_REQUIRED: [401, 'Authentication is required'],
  AUTH_TOKEN_EXPIRED: [401, 'The access token has expired'],
  AUTH_TOKEN_INVALID: [401, 'The access token is not valid'],
  ACCESS_DENIED: [403, 'The access token lacks a required scope'],
  PERMISSION_DENIED: [403, 'The caller is not permitted to do this'],
  QUOTA_EXCEEDED: [403, 'The quota is used up'],
  RESOURCE_NOT_FOUND: [404, 'The resource does not exist'],
  METHOD_NOT_ALLOWED: [405, 'The resource does not support this method'],
  NOT_ACCEPTABLE: [406, 'No acceptable representation exists'],
  REQUEST_TIMEOUT: [408, 'The request took too long to arrive'],
  DUPLICATE_RESOURCE: [409, 'The resource already exists'],
  RESOURCE_IN_USE: [409, 'Other resources refer to this one'],
  STATE_CONFLICT: [409, 'The state of the resource does not allow this'],
  RESOURCE_LOCKED: [409, 'The state of the resource does not allow changes'],
  IDEMPOTENCY_IN_PROGRESS: [409, 'A request with this Idempotency-Key is in progress'],
  TASK_NOT_COMPLETED: [409, 'The task is not completed yet'],
  TASK_FAILED: [409, 'The task has failed'],
  TASK_ALREADY_FINISHED: [409, 'The task has already ended'],
  WEBHOOK_NOT_ACTIVE: [409, 'The webhook is paused or disabled'],
  WEBHOOK_LIMIT_REACHED: [409, 'The account has reached its webhook limit'],
  SECRET_ROTATION_IN_PROGRESS: [409, 'A rotation of the secret is still in progress'],
  LAST_ADMINISTRATOR: [409, 'The last administrator cannot be removed'],
  BACKUPS_NOT_CONFIGURED: [409, 'Backups are not configured'],
  BACKUP_IN_PROGRESS: [409, 'Another backup is in progress'],
  BACKUP_UNAVAILABLE: [409, 'The file of the backup cannot be read here'],
  BACKUP_NOT_ENCRYPTED: [409, 'The backup is not encrypted'],
  CHECK_IN_PROGRESS: [409, 'The check is already in progress'],
  RESULT_EXPIRED: [410, 'The result has expired'],
  VERSION_RETIRED: [410, 'The API version was retired'],
  PRECONDITION_FAILED: [412, 'A precondition of the request is not met'],
  PAYLOAD_TOO_LARGE: [413, 'The request body is too large'],
  URI_TOO_LONG: [414, 'The request target is too long'],
  UNSUPPORTED_MEDIA_TYPE: [415, 'The media type of the body is not supported'],
  RANGE_NOT_SATISFIABLE: [416, 'The requested range is outside the result'],
  EXPECTATION_FAILED: [417, 'The expectation cannot be met'],
  VALIDATION_ERROR: [422, 'The request failed validation'],
  IDEMPOTENCY_KEY_REUSED: [422, 'The Idempotency-Key was used for a different request'],
  CALLBACK_URL_BLOCKED: [422, 'The callback URL is not allowed'],
  PRECONDITION_REQUIRED: [428, 'The request must be conditional'],
  RATE_LIMIT_EXCEEDED: [429, 'Too many requests'],
  HEADERS_TOO_LARGE: [431, 'The request headers are too large'],
  INTERNAL_ERROR: [500, 'An unexpected error occurred'],
  NOT_IMPLEMENTED: [501, 'The method or transfer coding is not implemented'],
  SERVICE_UNAVAILABLE: [503, 'The service is temporarily unavailable'],
} as const satisfies Record<string, readonly [status: number, title: string]>

export type ProblemCode = keyof typeof problems

/** Converts an error code to the spelling used in URLs: `AUTH_REQUIRED` becomes `auth-required`. */
export const kebabOf = (code: string): string => code.toLowerCase().replaceAll('_', '-')

/** Returns the URL of the page that explains an error code; problems use this URL as their `type`. */
export const problemUrl = (baseUrl: string, code: ProblemCode): string => `${baseUrl}/problems/${kebabOf(code)}`

/** A validation error: `field` is the body member, query parameter or path parameter; `message` says what was expected. */
export interface FieldError {
  field: string
  message: string
}

export interface ProblemOptions {
  errors?: FieldError[]
  /** Extra response headers, such as `Allow` or `Retry-After`. */
  headers?: Record<string, string>
  /** The original error. It is logged if the status is 5xx, and is never sent. */
  cause?: unknown
}

/** An error to report to the client. Any code may throw it; the error handler renders it (RFC 9457). */
export class Problem extends Error {
  readonly code: ProblemCode
  readonly status: number
  readonly errors: FieldError[] | undefined
  readonly headers: Record<string, string> | undefined

  /** `detail` is public: it explains this occurrence of the error to the client. */
  constructor(code: ProblemCode, detail: string, options: ProblemOptions = {}) {
    super(detail, { cause: options.cause })
    this.code = code
    this.status = problems[code][0]
    this.errors = options.errors
    this.headers = options.headers
  }
}

/** Returns the 412 for a subject, such as `The task`, that does not meet the preconditions (RFC 9110 §13.1). */
export const preconditionFailed = (subject: string): Problem =>
  new Problem('PRECONDITION_FAILED', `${subject} does not meet the preconditions of the request`)

/** Returns INVALID_INPUT for one query parameter; `message` completes a sentence that starts with the parameter name. */
export const malformedQuery = (field: string, message: string): Problem =>
  new Problem('INVALID_INPUT', 'The query is malformed', { errors: [{ field, message }] })
