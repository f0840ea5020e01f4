import type { apiHeaderNames } from '../http/headers/header-names.ts'
import type { Schema } from './schemas.ts'

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

export interface Reference {
  $ref: string
  description?: string
}

export type Content = Record<
  string,
  { schema?: Schema; example?: unknown; examples?: Record<string, { value: unknown }> }
>

export interface Response {
  description: string
  headers?: Record<string, Header | Reference>
  content?: Content
}

const text = { type: 'string' }
const like = (example: string) => ({ ...text, examples: [example] })
const date = like('Sun, 01 Mar 2026 12:00:00 GMT')
const natural = { type: 'integer', minimum: 0 }

const header = (description: string, schema: Schema = text): Header => ({ description, schema })

/** Response headers that matter only to browsers and caches. */
const browserHeaders = {
  'Strict-Transport-Security': header('Only HTTPS from now on (RFC 6797)', like('max-age=31536000; includeSubDomains')),
  'X-Content-Type-Options': header('The media type is what Content-Type says', like('nosniff')),
  'Referrer-Policy': header('What a link from here tells of its origin', like('no-referrer')),
  'Content-Security-Policy': header('What the page may load and do', like("default-src 'none'")),
  'Set-Cookie': header('The login of this browser; no program needs it'),
  Pragma: header('`no-cache` beside tokens (RFC 6749 §5.1)', like('no-cache')),
  Vary: header('The request headers that chose this representation (RFC 9110 §12.5.5)', like('Accept')),
} satisfies Record<string, Header>

/** Response headers that API clients read, by name. */
export const apiHeaders = {
  Allow: header('The methods of the path', like('GET, HEAD, OPTIONS')),
  'X-Request-Id': header("Names this exchange; a client's own of 8 to 64 safe characters is kept"),
  'X-Error-Code': header('The errorCode of the body', { $ref: '#/components/schemas/ErrorCode' }),
  'Cache-Control': header('Who may keep the answer, and how long (RFC 9111)', like('private, no-cache')),
  Expires: header('When a kept answer is stale', date),
  ETag: header('Validator: strong for a whole resource, weak for a list or a reduced answer', like('"3"')),
  'Last-Modified': header('When the resource was changed last', date),
  Location: header('Path of the new resource, or of the status to poll', like('/v1/things/1')),
  Link: header(
    'Pages of the list: first, next and prev where there are any (RFC 8288); successor-version where this one ends',
    like('</things>; rel="first"'),
  ),
  Deprecation: header('The version is deprecated: `true`, or since when (RFC 9745)', like('@1796083200')),
  Sunset: header('From when on the version may be retired (RFC 8594)', date),
  'X-Total-Count': header('The number of all matching items, under `Prefer: count=exact`', natural),
  'Preference-Applied': header('The preferences that were honoured (RFC 7240 §3)', like('handling=strict')),
  'Idempotent-Replayed': header('The answer was given before, to the same request under the same key', {
    ...text,
    enum: ['true'],
  }),
  Accept: header('The media types that the operation reads', like('application/json')),
  'Accept-Encoding': header('The codings of a body that are read', like('identity')),
  'Accept-Patch': header('The media types of a patch that are read (RFC 5789)', like('application/merge-patch+json')),
  'Retry-After': header('Seconds to wait before asking again', natural),
  'X-RateLimit-Limit': header('Calls that the tightest limit allows in its window', natural),
  'X-RateLimit-Remaining': header('Calls left of them', natural),
  'X-RateLimit-Reset': header('When the window ends, in epoch seconds', natural),
  RateLimit: header('The same as IETF draft headers tell it: calls left and seconds', like('"default";r=5999;t=60')),
  'RateLimit-Policy': header('Each limit that counts here: calls and seconds', like('"default";q=6000;w=60')),
  'X-Quota-Limit': header('Calls that the account may make in a calendar month (UTC)', natural),
  'X-Quota-Remaining': header('Calls left of them', natural),
  'X-Quota-Reset': header('When the month ends, in epoch seconds', natural),
  'Server-Timing': header('How long the call was held back, in ms, when it was', like('throttle;dur=50')),
  'X-Accel-Buffering': header('Proxies are to pass on each piece as it comes', like('no')),
  'WWW-Authenticate': header('What the request lacks (RFC 6750)', like('Bearer realm="plinth"')),
  'Content-Disposition': header('The name of the file', like('attachment; filename="result.csv"')),
  'Accept-Ranges': header('That parts can be asked for', like('bytes')),
  'Content-Range': header('Which part it is, of how many bytes', like('bytes 0-1023/8192')),
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

const strict = '`handling=strict`: refuse what would be ignored, such as unknown names'

const preference = (example: string, more: readonly string[] = []) =>
  condition('Prefer', `Preferences (RFC 7240): ${[strict, ...more].join('; ')}`, example)

/**
 * Request headers that change what an operation does, by name. Tools send the examples as they are, so each example is a
 * condition that is met: a tag that no resource has, a date before or after every change.
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
  Range: condition('Range', 'The part to send, such as `bytes=0-1023`', 'bytes=0-1023'),
  'If-Range': condition('If-Range', 'The part only if the result has this strong tag, else the whole', '"0"'),
  'Idempotency-Key': condition(
    'Idempotency-Key',
    'Names this operation among those of the client on this path, for 24 hours: repeated under it, the request has one effect and one answer',
    '0b8f7e6c-5d4a-4c3b-9a2f-1e0d9c8b7a65',
    { ...text, maxLength: 255, pattern: '^([!#-~]([ -~]*[!-~])?|"([ !#-\\[\\]-~]|\\\\["\\\\])+")$' },
  ),
  Prefer: preference('handling=lenient'),
  PreferOnLists: preference('count=exact', [
    '`count=exact`: tell a caller with a token the number of all matching items',
  ]),
  PreferOnWrites: preference('return=representation', ['`return=minimal`: leave out the representation']),
  PreferOnTasks: preference('wait=1', [
    '`wait=10`: answer when the task has ended, with If-None-Match when it changes, or after so many seconds, 30 at most',
  ]),
} satisfies Record<string, Parameter>

export type HeaderParameterName = keyof typeof headerParameters

/** References to request headers, for an operation. */
export const parameterReferences = (names: readonly HeaderParameterName[]): Reference[] =>
  names.map((name) => ({ $ref: `#/components/parameters/${name}` }))

/** References to response headers, for a response. */
export const headerReferences = (names: readonly HeaderName[]): Record<string, Reference> =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
