import type { apiHeaderNames } from '../http/headers/header-names.ts'
import type { MediaType, Schema } from './schemas.ts'

export interface Header {
  description: string
  schema: Schema
}

export interface Parameter extends Header {
  name: string
  in: string
  required?: boolean
  example?: unknown
}

export interface SchemaReference {
  $ref: string
  description?: string
}

export type Content = Record<string, MediaType>

/**
 * A link to an operation that clients can call next; `parameters` refers to values in the response (OpenAPI 3.1, Link
 * Object).
 */
export interface OperationLink {
  operationId: string
  parameters: Readonly<Record<string, string>>
  description?: string
}

export interface Response {
  description: string
  headers?: Record<string, Header | SchemaReference>
  content?: Content
  links?: Readonly<Record<string, OperationLink>>
}

const text = { type: 'string' }
const like = (example: string) => ({ ...text, examples: [example] })
const date = like('Sun, 01 Mar 2026 12:00:00 GMT')
const natural = { type: 'integer', minimum: 0 }

const header = (description: string, schema: Schema = text): Header => ({ description, schema })

/** Response headers that matter only to browsers and caches. */
const browserHeaders = {
  'Strict-Transport-Security': header(
    'Requires HTTPS for future requests (RFC 6797)',
    like('max-age=31536000; includeSubDomains'),
  ),
  'X-Content-Type-Options': header('The media type must not be guessed from the content', like('nosniff')),
  'Referrer-Policy': header('How much of the referrer a browser sends when it follows a link', like('no-referrer')),
  'Content-Security-Policy': header('What the page may load and run', like("default-src 'none'")),
  'Set-Cookie': header('The login session of a browser; API clients do not need it'),
  Pragma: header('`no-cache` for responses with tokens (RFC 6749 §5.1)', like('no-cache')),
  Vary: header('The request headers that selected this representation (RFC 9110 §12.5.5)', like('Accept')),
} satisfies Record<string, Header>

/** Response headers that API clients read, by name. */
export const apiHeaders = {
  Allow: header('The methods that the path supports', like('GET, HEAD, OPTIONS')),
  'X-Request-Id': header("Identifies this request; the client's own id is used if it has 8 to 64 safe characters"),
  'X-Error-Code': header('The errorCode of the body', { $ref: '#/components/schemas/ErrorCode' }),
  'Cache-Control': header('Who may store the response, and for how long (RFC 9111)', like('private, no-cache')),
  Expires: header('When a stored response becomes stale', date),
  ETag: header('Entity tag: strong for a whole resource, weak for a list or a partial response', like('"3"')),
  'Last-Modified': header('When the resource was last modified', date),
  Location: header('Path of the new resource, or of the task status to poll', like('/v1/things/1')),
  Link: header(
    'Pages of the list: first, and next and prev if they exist (RFC 8288); successor-version if this API version is deprecated',
    like('</things>; rel="first"'),
  ),
  Deprecation: header('The API version is deprecated: `true`, or the date since when (RFC 9745)', like('@1796083200')),
  Sunset: header('The earliest date at which the API version may be retired (RFC 8594)', date),
  'X-Total-Count': header('The total number of matching items, with `Prefer: count=exact`', natural),
  'Preference-Applied': header('The preferences that were honored (RFC 7240 §3)', like('handling=strict')),
  'Idempotent-Replayed': header('The response is a replay: the same request was sent before with the same key', {
    ...text,
    enum: ['true'],
  }),
  Accept: header('The media types that the operation accepts', like('application/json')),
  'Accept-Encoding': header('The content codings that are accepted for a body', like('identity')),
  'Accept-Patch': header(
    'The media types that are accepted for a patch (RFC 5789)',
    like('application/merge-patch+json'),
  ),
  'Retry-After': header('Seconds to wait before trying again', natural),
  'X-RateLimit-Limit': header('Requests that the tightest rate limit allows in its window', natural),
  'X-RateLimit-Remaining': header('Requests remaining in the window', natural),
  'X-RateLimit-Reset': header('When the window ends, in epoch seconds', natural),
  RateLimit: header(
    'The tightest limit in the form of the IETF draft: remaining requests and seconds until the window ends',
    like('"default";r=5999;t=60'),
  ),
  'RateLimit-Policy': header(
    'Each limit that applies, in the form of the IETF draft: requests and window in seconds',
    like('"default";q=6000;w=60'),
  ),
  'X-Quota-Limit': header('Requests that the account may make in a calendar month (UTC)', natural),
  'X-Quota-Remaining': header('Requests remaining in the month', natural),
  'X-Quota-Reset': header('When the month ends, in epoch seconds', natural),
  'Server-Timing': header('How long the request was throttled, in ms; absent if it was not', like('throttle;dur=50')),
  'X-Accel-Buffering': header('Tells proxies not to buffer the response', like('no')),
  'WWW-Authenticate': header('Why the request is not authorized (RFC 6750)', like('Bearer realm="plinth"')),
  'Content-Disposition': header('The name of the file', like('attachment; filename="result.csv"')),
  'Accept-Ranges': header('Ranges can be requested', like('bytes')),
  'Content-Range': header('The range that is sent, and the total number of bytes', like('bytes 0-1023/8192')),
  'Repr-Digest': header(
    'SHA-256 of the whole result (RFC 9530)',
    like('sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:'),
  ),
} satisfies Record<(typeof apiHeaderNames)[number], Header>

/** All documented response headers, by name. */
export const headers = { ...browserHeaders, ...apiHeaders }

export type HeaderName = keyof typeof headers

const condition = (name: string, description: string, example: string, schema: Schema = text): Parameter => ({
  name,
  in: 'header',
  description,
  schema,
  example,
})

const strict = '`handling=strict`: reject what would otherwise be ignored, such as unknown members'

const preference = (example: string, more: readonly string[] = []) =>
  condition('Prefer', `Preferences (RFC 7240): ${[strict, ...more].join('; ')}`, example)

/**
 * Request headers that change what an operation does, by name. Tools send the examples unchanged, so the preconditions
 * in the examples always hold: for instance, they use a tag that no resource has, or a date before or after every
 * change.
 */
export const headerParameters = {
  'If-Match': condition(
    'If-Match',
    'Only if the resource has one of these strong tags, such as `"3"`; `*` for any',
    '*',
  ),
  'If-None-Match': condition(
    'If-None-Match',
    'Only if the resource has none of these tags, such as `"3"`; `*` for any',
    '"0"',
  ),
  'If-Modified-Since': condition(
    'If-Modified-Since',
    'Only if the resource has changed since this HTTP date',
    'Thu, 01 Jan 2026 00:00:00 GMT',
  ),
  'If-Unmodified-Since': condition(
    'If-Unmodified-Since',
    'Only if the resource has not changed since this HTTP date',
    'Fri, 01 Jan 2100 00:00:00 GMT',
  ),
  Range: condition('Range', 'The range to send, such as `bytes=0-1023`', 'bytes=0-1023'),
  'If-Range': condition(
    'If-Range',
    'Send the range only if the result has this strong tag, otherwise the whole result',
    '"0"',
  ),
  'Idempotency-Key': condition(
    'Idempotency-Key',
    'Identifies this operation of the client on this path for 24 hours: repeating the request with the same key has no further effect and returns the same response',
    '0b8f7e6c-5d4a-4c3b-9a2f-1e0d9c8b7a65',
    { ...text, maxLength: 255, pattern: '^([!#-~]([ -~]*[!-~])?|"([ !#-\\[\\]-~]|\\\\["\\\\])+")$' },
  ),
  Prefer: preference('handling=lenient'),
  PreferOnLists: preference('count=exact', [
    '`count=exact`: return the total number of matching items; requires a token',
  ]),
  PreferOnWrites: preference('return=representation', ['`return=minimal`: omit the representation']),
  PreferOnTasks: preference('wait=1', [
    '`wait=10`: respond once the task has ended (with If-None-Match, once it changes), or after this many seconds, at most 30',
  ]),
} satisfies Record<string, Parameter>

export type HeaderParameterName = keyof typeof headerParameters

/** The content of a response that streams changes to resources. */
export const eventStream = {
  schema: {
    type: 'string',
    description:
      'Server-Sent Events, one for each change: `created` and `updated` with the resource as JSON in `data`, `removed` with its id, and `reset` if changes may be missing',
    examples: ['id: 42-p9Zr2LkA\nevent: removed\ndata: {"id":7}\n\n'],
  },
}

/** Returns references to request headers, for an operation. */
export const parameterReferences = (names: readonly HeaderParameterName[]): SchemaReference[] =>
  names.map((name) => ({ $ref: `#/components/parameters/${name}` }))

/** Returns references to response headers, for a response. */
export const headerReferences = (names: readonly HeaderName[]): Record<string, SchemaReference> =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
