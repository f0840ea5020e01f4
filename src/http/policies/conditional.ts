import { hash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { acceptsCoding, plainTag } from '../headers/content-encoding.ts'
import { matchesTag, parseEntityTags } from '../headers/entity-tags.ts'
import { httpDate, parseHttpDate } from '../headers/http-date.ts'
import { Problem } from '../problems/problem.ts'
import { routeConfig } from '../route-config.ts'
import { isNarrowed } from './partial-response.ts'

/** Metadata that handlers set on a single resource for this policy; response schemas keep it out of the body. */
export interface Versioned {
  revision: number
  updatedAt: string
  /** 1 if an earlier revision was created in the same second. */
  sharesSecond?: number
  /** Set for a representation that omits fields the caller may not read: it needs a tag of its own. */
  view?: 'reduced'
}

/** The preconditions of a write (RFC 9110 §13.1), in a form that can be part of the UPDATE statement. */
export interface Precondition {
  /** If-Match: one of these revisions, or any row. */
  matches?: 'any' | readonly number[]
  /** If-None-Match: none of these revisions, or no row. */
  differs?: 'any' | readonly number[]
  /** If-Unmodified-Since: not modified after this second; fixed-width ISO timestamp of the start of that second. */
  unmodifiedSince?: string
}

const isRead = (method: string) => method === 'GET' || method === 'HEAD'

/**
 * Conditional reads: sends a strong ETag derived from the revision (a weak one derived from the content if there is no
 * revision or only some fields are sent) and Last-Modified; 412 for If-Match or If-Unmodified-Since, 304 for If-None-Match
 * or If-Modified-Since, in the order of RFC 9110 §13.2.2.
 */
export const conditional = fastifyPlugin(
  async (app) => {
    const dateOf = httpDates()
    app.addHook('preSerialization', (request, reply, payload, done) => {
      const revision = (payload as Partial<Versioned> | null)?.revision
      if (revision === undefined || isNarrowed(request)) return done(null, payload)
      const resource = payload as Versioned
      const etag = strongTag(resource)
      reply.header('etag', etag)
      if (isRead(request.method)) {
        if (!preconditionsHold(request, etag, resource)) return done(preconditionFailed())
        if (isUnchanged(request, etag, resource)) reply.code(304).header('etag', clientTag(request, etag) ?? etag)
      }
      if (reply.statusCode !== 304 && resource.updatedAt) reply.header('last-modified', dateOf(resource.updatedAt))
      done(null, payload)
    })
    app.addHook('onSend', (request, reply, payload, done) => {
      // A 304 without a payload has no headers describing content.
      if (reply.statusCode === 304) return done(null, payload === undefined ? payload : withoutContent(request, reply))
      if (typeof payload !== 'string' || reply.statusCode !== 200 || !isRead(request.method)) return done(null, payload)
      const known = reply.getHeader('etag') as string | undefined
      // A strong tag was already evaluated before the representation was serialized.
      if (known !== undefined && !known.startsWith('W/')) return done(null, payload)
      const isCacheable = (routeConfig(request).cache ?? 'none') !== 'none'
      const etag = known ?? (isCacheable ? weakTag(payload) : undefined)
      if (etag !== undefined) reply.header('etag', etag)
      const match = request.headers['if-match']
      if (match !== undefined && !matchesTag(match, etag ?? '', 'strong')) return done(preconditionFailed())
      if (etag === undefined || !isUnchanged(request, etag, undefined)) return done(null, payload)
      reply.code(304)
      done(null, withoutContent(request, reply))
    })
  },
  { name: 'conditional', dependencies: ['partialResponse', 'caching'] },
)

/** A 304 carries validators and caching headers but no headers describing content (RFC 9110 §15.4.5). */
function withoutContent({ method }: FastifyRequest, reply: FastifyReply): Readable | null {
  reply.removeHeader('content-type').removeHeader('content-length')
  // Fastify's hook for HEAD routes runs later: it fails on null and sets Content-Length for anything but a stream.
  return method === 'HEAD' ? Readable.from([]) : null
}

/** The strong entity tag of a row. */
export const strongTag = ({ revision, view }: Versioned) => (view ? `"${revision}.${view}"` : `"${revision}"`)

/** The weak tag of a response without a revision: a hash of its content. */
export const weakTag = (content: string): string => `W/"${hash('sha1', content, 'base64url')}"`

/** `httpDate` that caches its last result: many rows share a timestamp. */
function httpDates(): (iso: string) => string {
  let last = ''
  let date = ''
  return (iso) => {
    if (iso !== last) date = httpDate(iso)
    last = iso
    return date
  }
}

const preconditionFailed = () =>
  new Problem('PRECONDITION_FAILED', 'The resource does not meet the preconditions of the request')

/** Evaluates If-Match by strong comparison; If-Unmodified-Since only without If-Match. */
function preconditionsHold({ headers }: FastifyRequest, etag: string, resource: Versioned): boolean {
  const match = headers['if-match']
  if (match !== undefined) return matchesRevision(match, etag)
  const since = headers['if-unmodified-since']
  return since === undefined || !(modifiedMs(resource) > parseHttpDate(since))
}

/** Whether the client already has the representation with this tag, or this resource unmodified. */
export function isUnchanged(request: FastifyRequest, etag: string, resource: Versioned | undefined): boolean {
  const { headers } = request
  const noneMatch = headers['if-none-match']
  if (noneMatch === etag) return true
  if (noneMatch !== undefined) return noneMatch.trim() === '*' || clientTag(request, etag) !== undefined
  const since = headers['if-modified-since']
  return since !== undefined && resource !== undefined && modifiedMs(resource) <= parseHttpDate(since)
}

/** Evaluates If-Match by strong comparison; the tag of any content coding identifies the revision. */
function matchesRevision(match: string, etag: string): boolean {
  const tags = parseEntityTags(match)
  if (tags === 'any') return true
  return tags?.some(({ opaque, isWeak }) => !isWeak && plainTag(opaque)[0] === etag) ?? false
}

/**
 * The tag in If-None-Match that identifies the current representation, either uncompressed or in a coding that this request
 * accepts. The server may choose which of these to select (RFC 9110 §12.1), so it selects the one the client has.
 */
export function clientTag({ headers }: FastifyRequest, etag: string): string | undefined {
  const sent = headers['if-none-match'] ?? ''
  if (sent === etag) return etag
  const tags = parseEntityTags(sent)
  if (tags === null || tags === 'any') return undefined
  if (tags.some(({ opaque }) => opaque === (etag.startsWith('W/') ? etag.slice(2) : etag))) return etag
  return tags.find(({ opaque }) => {
    const [plain, coding] = plainTag(opaque)
    return plain === etag && coding !== undefined && acceptsCoding(headers['accept-encoding'], coding)
  })?.opaque
}

const wholeSeconds = (ms: number) => Math.floor(ms / 1_000) * 1_000

/**
 * Modification time for date conditions; NaN without a date. One second is added if an earlier revision has the same date,
 * because a client that has that revision sends the same date (RFC 9110 §8.8.2.2).
 */
const modifiedMs = ({ updatedAt, sharesSecond }: Versioned): number =>
  wholeSeconds(Date.parse(updatedAt)) + (sharesSecond ? 1_000 : 0)

/** Whether a row meets a precondition. Unless the row is locked, the UPDATE statement must check it again. */
export function meets(resource: Versioned, { matches = 'any', differs = [], unmodifiedSince }: Precondition): boolean {
  const { revision } = resource
  if (matches !== 'any' && !matches.includes(revision)) return false
  if (differs === 'any' || differs.includes(revision)) return false
  return unmodifiedSince === undefined || modifiedMs(resource) <= Date.parse(unmodifiedSince)
}

/** The revision in a tag issued by this service; -1, which no row has, for any other tag. */
const revisionOf = (tag: string): number => Number(/^"([1-9][0-9]{0,8})(\.reduced)?(-br|-gzip)?"$/.exec(tag)?.[1] ?? -1)

/**
 * The preconditions of a PUT, PATCH or DELETE in the order of RFC 9110 §13.2.2: If-Unmodified-Since only counts without
 * If-Match. Throws 428 if `required` is set and neither is present.
 */
export function preconditionOf({ headers }: FastifyRequest, required: boolean): Precondition {
  const match = headers['if-match']
  const noneMatch = headers['if-none-match']
  const since = parseHttpDate(headers['if-unmodified-since'] ?? '')
  if (required && match === undefined && Number.isNaN(since)) {
    throw new Problem('PRECONDITION_REQUIRED', 'Send If-Match with the ETag of the revision that you read')
  }
  const precondition: Precondition = {}
  if (match !== undefined) precondition.matches = revisionsOf(match, true) ?? []
  else if (!Number.isNaN(since)) precondition.unmodifiedSince = new Date(since).toISOString()
  // A malformed condition is never met.
  if (noneMatch !== undefined) precondition.differs = revisionsOf(noneMatch, false) ?? 'any'
  return precondition
}

/** The revisions in a list of tags; strong comparison skips weak tags, which never match for a write. */
function revisionsOf(list: string, isStrong: boolean): 'any' | number[] | null {
  const tags = parseEntityTags(list)
  if (tags === 'any' || tags === null) return tags
  return [...new Set(tags.filter(({ isWeak }) => !(isStrong && isWeak)).map(({ opaque }) => revisionOf(opaque)))]
}

/**
 * Evaluates the preconditions of a POST against its collection, which exists and has no date: `If-None-Match: *` fails, and
 * so does any If-Match other than `*`, because lists have weak tags. Throws PRECONDITION_FAILED.
 */
export function checkPostPreconditions({ headers }: FastifyRequest): void {
  const match = headers['if-match']
  const noneMatch = headers['if-none-match']
  if (match === undefined && noneMatch === undefined) return
  const met =
    (match === undefined || parseEntityTags(match) === 'any') && Array.isArray(parseEntityTags(noneMatch ?? ''))
  if (!met) throw new Problem('PRECONDITION_FAILED', 'The collection does not meet the preconditions of the request')
}
