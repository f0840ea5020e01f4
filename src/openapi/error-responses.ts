import { STATUS_CODES } from 'node:http'
import { type ProblemCode, problems, problemUrl } from '../http/problems/problem.ts'
import { type HeaderName, headerReferences, type Response } from './components.ts'
import type { Schema } from './schemas.ts'

const text = { type: 'string' }
const url = { type: 'string', format: 'uri' }
const instant = { type: 'string', format: 'date-time' }
const code = { $ref: '#/components/schemas/ErrorCode' }
const listOf = (...names: string[]): Schema => ({
  type: 'array',
  items: { type: 'object', properties: Object.fromEntries(names.map((name) => [name, text])), required: names },
})

const ofBothForms = {
  errorCode: code,
  requestId: { ...text, description: 'The value of X-Request-Id' },
  timestamp: instant,
}

const ofProblems = {
  type: { ...url, description: 'Problem form: a page that explains the errorCode' },
  title: { ...text, description: 'Problem form: a summary, the same for every problem of this type' },
  status: { type: 'integer', minimum: 400, maximum: 599, description: 'Problem form: the HTTP status' },
  detail: { ...text, description: 'Problem form: an explanation of this occurrence' },
  instance: { ...url, description: 'Problem form: identifies this occurrence' },
  errors: { ...listOf('field', 'message'), description: 'Problem form: the invalid fields' },
}

const ofCodes = {
  message: { ...text, description: 'Code form: an explanation of this occurrence' },
  details: { ...listOf('field', 'issue'), description: 'Code form: the invalid fields' },
  path: { ...text, description: 'Code form: the path of the request' },
}

/**
 * The schemas of the error body and the error codes. A single schema contains the members of all error formats, all of
 * them optional, so that generated clients have a single error type.
 */
export const errorSchemas: Record<string, Schema> = {
  ErrorCode: { type: 'string', enum: Object.keys(problems), description: 'A stable code for programs' },
  ErrorBody: {
    type: 'object',
    description:
      'An error in one of three forms: the problem form (RFC 9457), the code form, or `error` alone for limits and OAuth',
    properties: {
      ...ofBothForms,
      ...ofProblems,
      ...ofCodes,
      error: {
        ...text,
        description: 'The limit that was exceeded; at OAuth endpoints, the error code of RFC 6749 §5.2',
      },
      error_description: { ...text, description: 'OAuth endpoints: an explanation of this occurrence' },
    },
  },
}

const errorBody = { $ref: '#/components/schemas/ErrorBody' }

/** Codes of errors that have the same one-field body in both error formats. */
const ofLimits: ReadonlySet<string> = new Set(['RATE_LIMIT_EXCEEDED', 'QUOTA_EXCEEDED'])

/** Returns the component name for an error status, such as `NotFound`. */
export const responseName = (status: number): string => (STATUS_CODES[status] as string).replace(/[^A-Za-z]/g, '')

const codesOf = (status: number) =>
  (Object.keys(problems) as ProblemCode[]).filter((known) => problems[known][0] === status)

const headersOfStatus: Record<number, readonly HeaderName[]> = {
  401: ['WWW-Authenticate'],
  403: ['WWW-Authenticate'],
  405: ['Allow'],
  409: ['Retry-After', 'Idempotent-Replayed'],
  415: ['Accept', 'Accept-Encoding', 'Accept-Patch'],
  416: ['Accept-Ranges', 'Content-Range'],
  429: ['Retry-After'],
  503: ['Retry-After'],
}

/**
 * Returns one response component for each error status in the registry, `Error` for all other errors, and
 * `NotModified`.
 */
export function errorResponses(baseUrl: string): Record<string, Response> {
  const statuses = new Set(Object.values(problems).map(([status]) => status))
  const byStatus = [...statuses].map((status) => [
    responseName(status),
    errorResponse(baseUrl, codesOf(status), headersOfStatus[status] ?? []),
  ])
  const notModified = headerReferences(['ETag', 'Last-Modified', 'Expires', 'Preference-Applied'])
  return {
    ...Object.fromEntries(byStatus),
    Error: {
      ...errorResponse(baseUrl, ['INTERNAL_ERROR', 'SERVICE_UNAVAILABLE'], ['Retry-After']),
      description: 'Any other error, such as an internal error (500) or an unavailable data store (503)',
    },
    NotModified: { description: 'The representation that the client has is current; no content', headers: notModified },
  }
}

/** Returns a description that lists error codes with their titles. */
export const describeCodes = (codes: readonly ProblemCode[]): string =>
  codes.map((known) => `${known}: ${problems[known][1]}`).join('; ')

function errorResponse(baseUrl: string, codes: readonly ProblemCode[], extra: readonly HeaderName[]): Response {
  const full = codes.filter((known) => !ofLimits.has(known))
  const bare = codes.filter((known) => ofLimits.has(known))
  const bodies = (of: readonly ProblemCode[], body: (code: ProblemCode) => object) =>
    of.map((known): [string, { value: unknown }] => [known, { value: body(known) }])
  const jsonBodies = [...bodies(full, codeExample), ...bodies(bare, limitExample)]
  const problemBodies = Object.fromEntries(bodies(full, (known) => problemExample(baseUrl, known)))
  return {
    description: describeCodes(codes),
    headers: headerReferences(['X-Error-Code', 'Preference-Applied', ...extra]),
    content: {
      ...(full.length > 0 && { 'application/problem+json': { schema: errorBody, examples: problemBodies } }),
      'application/json': { schema: errorBody, examples: Object.fromEntries(jsonBodies) },
    },
  }
}

const requestId = '5f0c2c1e-9f0e-4a53-8d0c-3f3f6e6e2b11'
const common = { requestId, timestamp: '2026-03-01T12:00:00.000Z' }

const problemExample = (baseUrl: string, errorCode: ProblemCode) => ({
  type: problemUrl(baseUrl, errorCode),
  title: problems[errorCode][1],
  status: problems[errorCode][0],
  detail: problems[errorCode][1],
  instance: `urn:request:${requestId}`,
  errorCode,
  ...common,
})

const limitExample = (errorCode: ProblemCode) => ({ error: problems[errorCode][1] })

const codeExample = (errorCode: ProblemCode) => ({
  errorCode,
  message: problems[errorCode][1],
  path: '/v1/things/1',
  ...common,
})
