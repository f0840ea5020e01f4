import { STATUS_CODES } from 'node:http'
import { honorsPrefer } from '../http/policies/prefer.ts'
import type { ProblemCode } from '../http/problems/problem.ts'
import { acceptsKeys } from '../idempotency/policy.ts'
import {
  type Content,
  eventStream,
  type HeaderName,
  type HeaderParameterName,
  headerReferences,
  type Response,
  type SchemaReference,
} from './components.ts'
import { exampleOf } from './examples.ts'
import type { Declared, Route } from './operation-types.ts'
import { type Schema, wholeOf } from './schemas.ts'

/** Returns whether the response is a file that supports range requests. */
const isFile = ({ schema }: Route) => schema.response?.['206'] !== undefined

/** Returns whether the route is a read whose response has an entity tag. */
const isValidated = ({ method, config }: Route) => method === 'GET' && config.cache !== 'none'

/** Returns whether the response is a single resource with a revision, as opposed to a list or a constant. */
const isSingle = ({ schema, config }: Route, status: string) => {
  const answer = schema.response?.[status]
  const isObject = answer?.properties !== undefined && !config.enclosed && config.revised !== false
  return isObject && (schema.params !== undefined || status === '201' || status === '202')
}

/** Returns the error codes implied by a route's schema and config. */
export function problemsOf(route: Route): ProblemCode[] {
  const { params, querystring, body } = route.schema
  const readsIntegers = Object.values(params?.properties ?? {}).some(({ type }) => type === 'integer')
  const isUpload = route.config.bodyTypes !== undefined
  const isReadOnce = isValidated(route) && isSingle(route, '200')
  const implied: [boolean, ProblemCode[]][] = [
    [Boolean(readsIntegers || querystring || body || isUpload), ['INVALID_INPUT']],
    [body !== undefined, ['MISSING_REQUIRED_FIELD']],
    [true, refusalsOf(route.config.scope)],
    [route.config.produces?.length !== 0, ['NOT_ACCEPTABLE']],
    [params !== undefined, ['RESOURCE_NOT_FOUND']],
    [isReadOnce, ['PRECONDITION_FAILED']],
    [isChange(route), ['PRECONDITION_FAILED', 'PRECONDITION_REQUIRED']],
    [isFile(route), ['PRECONDITION_FAILED', 'RANGE_NOT_SATISFIABLE']],
    [acceptsKeys(route), ['INVALID_INPUT', 'IDEMPOTENCY_IN_PROGRESS', 'IDEMPOTENCY_KEY_REUSED']],
    [honorsPrefer(route), ['INVALID_INPUT']],
    [body !== undefined || isUpload, ['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'VALIDATION_ERROR']],
    [true, [...(route.config.problems ?? [])]],
  ]
  return implied.flatMap(([holds, codes]) => (holds ? codes : []))
}

/** Returns the error codes that `authorize` can cause. Even public paths reject an invalid token. */
function refusalsOf(scope: string | undefined): ProblemCode[] {
  const wrong: ProblemCode[] = ['AUTH_TOKEN_EXPIRED', 'AUTH_TOKEN_INVALID']
  if (scope === 'public') return wrong
  return ['AUTH_REQUIRED', ...wrong, ...(scope === 'any' ? [] : ['ACCESS_DENIED' as const])]
}

/** Returns the request headers that a route honors. */
export function requestHeadersOf(route: Route): HeaderParameterName[] {
  const implied: [boolean, HeaderParameterName[]][] = [
    [isFile(route), ['If-Match', 'If-None-Match', 'Range', 'If-Range']],
    [isChange(route), ['If-Match', 'If-None-Match', 'If-Unmodified-Since']],
    [isValidated(route), ['If-None-Match']],
    [isValidated(route) && isSingle(route, '200'), ['If-Modified-Since', 'If-Match', 'If-Unmodified-Since']],
    [acceptsKeys(route), ['Idempotency-Key']],
    [honorsPrefer(route), [preferOf(route)]],
    [true, [...(route.config.requestHeaders ?? [])]],
  ]
  return [...new Set(implied.flatMap(([holds, names]) => (holds ? names : [])))]
}

/** Returns the Prefer parameter component that describes the preferences a route supports. */
function preferOf(route: Route): HeaderParameterName {
  if (isCounted(route)) return 'PreferOnLists'
  if (route.config.minimal) return 'PreferOnWrites'
  return route.config.waits ? 'PreferOnTasks' : 'Prefer'
}

/** Returns whether the route lists a collection that clients can sort and count. */
const isCounted = ({ schema }: Route) => schema.querystring?.properties?.sort !== undefined

/**
 * Returns the declared success responses with their headers, plus 204 for `return=minimal` and 304 where they apply. If
 * no response is declared, starts from the method's default success response.
 */
export function successesOf(
  route: Route,
  refer: (schema: Schema, suffix?: string) => Schema,
): Record<string, Response | SchemaReference> {
  const bare: Record<string, Declared> = { [route.method === 'DELETE' ? 204 : 200]: {} }
  const declared = Object.entries(route.schema.response ?? bare).map(([status, answer]): [string, Response] => [
    status,
    {
      description: (answer.content && answer.description) || (STATUS_CODES[status] as string),
      headers: headerReferences(headersOf(route, status)),
      ...withStream(
        route,
        status,
        contentOf(answer, (schema) => responseSchema(route, schema, refer)),
      ),
      ...(status === '200' && route.config.links && { links: route.config.links }),
    },
  ])
  const conditional = isValidated(route) || isFile(route)
  const notModified = { '304': { $ref: '#/components/responses/NotModified' } }
  const minimal = { '204': { description: 'Changed, with `return=minimal`', headers: declared[0]?.[1].headers ?? {} } }
  const isShortened = route.config.minimal && route.schema.response?.['200'] !== undefined
  return { ...Object.fromEntries(declared), ...(isShortened && minimal), ...(conditional && notModified) }
}

/** Adds the event stream to the content of a response, if the route has one. */
function withStream({ config }: Route, status: string, { content }: { content?: Content }): { content?: Content } {
  if (!content) return {}
  return { content: config.streams && status === '200' ? { ...content, 'text/event-stream': eventStream } : content }
}

/**
 * Returns the schema of the full response, regardless of `fields`, so that generated clients know which members a
 * resource always has.
 */
function responseSchema({ config }: Route, schema: Schema, refer: (schema: Schema, suffix?: string) => Schema): Schema {
  const shape = (one: Schema): Schema => refer(wholeOf(one))
  if (config.enclosed) return refer(envelopeSchema(schema, shape), 'List')
  return schema.items ? { ...schema, items: shape(schema.items) } : shape(schema)
}

/** Returns a list's envelope schema, with an example that contains one item. */
function envelopeSchema({ properties = {}, ...schema }: Schema, shape: (one: Schema) => Schema): Schema {
  const { items: { items = {}, ...list } = {}, ...pages } = properties
  const [item = exampleOf(wholeOf(items))] = (items.examples as object[] | undefined) ?? []
  const around = Object.entries(pages).map(([name, { examples }]) => [name, (examples as unknown[])[0]])
  const examples = [{ items: [item], ...Object.fromEntries(around) }]
  return { ...schema, properties: { items: { ...list, items: shape(items) }, ...pages }, examples }
}

function headersOf(route: Route, status: string): HeaderName[] {
  const partial: HeaderName[] = ['ETag', 'Accept-Ranges', 'Content-Disposition', 'Repr-Digest']
  const implied: [boolean, HeaderName[]][] = [
    [isValidated(route) && route.config.cache === 'public', ['Expires']],
    [isFile(route), partial],
    [status === '206', ['Content-Range']],
    [isValidated(route) || isSingle(route, status), ['ETag']],
    [isSingle(route, status), ['Last-Modified']],
    [status === '201' || status === '202', ['Location']],
    [status === '202', ['Retry-After']],
    [route.schema.querystring?.properties?.cursor !== undefined, ['Link']],
    [isCounted(route), ['X-Total-Count']],
    [honorsPrefer(route), ['Preference-Applied']],
    [acceptsKeys(route), ['Idempotent-Replayed']],
    [true, [...(route.config.headers ?? [])]],
  ]
  return implied.flatMap(([holds, names]) => (holds ? names : []))
}

function contentOf({ content, ...schema }: Declared, refer: (schema: Schema) => Schema): { content?: Content } {
  if (content) return { content: Object.fromEntries(Object.entries(content).map((entry) => mediaType(entry, refer))) }
  return Object.keys(schema).length > 0 ? { content: { 'application/json': { schema: refer(schema) } } } : {}
}

/**
 * Returns the entry for a media type, without the type's parameters, because they do not affect the schema. A JSON file
 * has no schema, because it may contain any JSON value.
 */
function mediaType([type, { schema = {} }]: [string, Content[string]], refer: (schema: Schema) => Schema) {
  const [bare = ''] = type.split(';')
  const isJsonFile = bare === 'application/json' && schema.format === 'binary'
  return [bare, isJsonFile ? {} : { schema: refer(schema) }]
}

/** Returns whether the route writes to a resource with a revision; such writes can be conditional (RFC 9110 §13.1). */
export const isChange = ({ method, schema, config }: Route): boolean =>
  schema.params !== undefined && config.revised !== false && /^(PUT|PATCH|DELETE)$/.test(method)

/** Returns the default description of an operation: who may call it, and what it supports. */
export function describedBy(route: Route): string {
  const { config, schema } = route
  const query = schema.querystring?.properties ?? {}
  const sentences: [boolean, string][] = [
    [true, accessOf(config)],
    [query.cursor !== undefined, 'Paginated: `Link` has the next and previous page.'],
    [Boolean(config.fields), '`fields` selects members of the response.'],
    [isChange(route), 'With `If-Match`, fails with 412 if the resource has changed.'],
    // Last-Event-ID is not declared as a parameter: generated clients would require it, although they cannot read
    // streams.
    [Boolean(config.streams), 'With `Accept: text/event-stream`, sends changes; `Last-Event-ID` resumes.'],
    [acceptsKeys(route), 'Safe to retry with an `Idempotency-Key`.'],
    [config.bodyOptional === true, 'The body is optional.'],
  ]
  return sentences.flatMap(([holds, words]) => (holds ? [words] : [])).join(' ')
}

function accessOf({ scope, orScope }: Route['config']): string {
  if (scope === 'public') return 'Public.'
  if (scope === 'any') return 'Requires a valid access token.'
  return `Requires the scope \`${scope}\`${orScope === undefined ? '' : ` or \`${orScope}\``}.`
}
