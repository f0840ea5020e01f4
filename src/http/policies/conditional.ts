import { hash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { acceptsCoding, plainTag } from '../headers/content-encoding.ts'
import { matchesTag, parseEntityTags } from '../headers/entity-tags.ts'
import { httpDates, parseHttpDate } from '../headers/http-date.ts'
import { Problem, preconditionFailed } from '../problems/problem.ts'
import { routeConfig } from '../route-config.ts'
import { isNarrowed } from './partial-response.ts'

/** The metadata of a single resource from which this policy computes the validators; response schemas may omit it. */
export interface Versioned {
  revision: number
  updatedAt: string
  /** 1 if an earlier revision was written within the same second. */
  sharesSecond?: number
  /** Identifies this representation if a revision has several, such as `reduced`; each of them needs its own tag. */
  view?: string
  /** Another value on which the representation depends, such as the day. If set, no Last-Modified is sent. */
  _variant?: string
}

/** The preconditions of a write (RFC 9110 §13.1), in a form that can be included in the UPDATE statement. */
export interface Precondition {
  /** If-Match: the row must have one of these revisions, or `any` revision. */
  matches?: 'any' | readonly number[]
  /** If-None-Match: the row must have none of these revisions; with `any`, no row may exist. */
  differs?: 'any' | readonly number[]
  /** If-Unmodified-Since: the row must not have changed after this second; a fixed-width ISO timestamp of its start. */
  unmodifiedSince?: string
}

const isRead = (method: string) => method === 'GET' || method === 'HEAD'

/**
 * Handles conditional reads. Sends Last-Modified and a strong ETag derived from the revision; the ETag is weak and
 * derived from the content if there is no revision or only some fields are sent. Responds with 412 if If-Match or
 * If-Unmodified-Since fails, and with 304 if If-None-Match or If-Modified-Since fails (RFC 9110 §13.2.2).
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
        if (!preconditionsHold(request, etag, resource)) return done(preconditionFailed('The resource'))
        if (isUnchanged(request, etag, resource)) reply.code(304).header('etag', clientTag(request, etag) ?? etag)
      }
      if (reply.statusCode !== 304 && resource.updatedAt && resource._variant === undefined)
        reply.header('last-modified', dateOf(resource.updatedAt))
      done(null, payload)
    })
    app.addHook('onSend', (request, reply, payload, done) => {
      // A 304 that already has no payload has no content headers to remove.
      if (reply.statusCode === 304) return done(null, payload === undefined ? payload : withoutContent(request, reply))
      if (typeof payload !== 'string' || reply.statusCode !== 200 || !isRead(request.method)) return done(null, payload)
      const known = reply.getHeader('etag') as string | undefined
      // A strong tag was already evaluated before the representation was serialized.
      if (known !== undefined && !known.startsWith('W/')) return done(null, payload)
      const isCacheable = (routeConfig(request).cache ?? 'none') !== 'none'
      const etag = known ?? (isCacheable ? weakTag(payload) : undefined)
      if (etag !== undefined) reply.header('etag', etag)
      const match = request.headers['if-match']
      if (match !== undefined && !matchesTag(match, etag ?? '', 'strong'))
        return done(preconditionFailed('The resource'))
      if (etag === undefined || !isUnchanged(request, etag, undefined)) return done(null, payload)
      reply.code(304)
      done(null, withoutContent(request, reply))
    })
  },
  { name: 'conditional', dependencies: ['partialResponse', 'caching'] },
)

/** Removes the headers that describe content from a 304 (RFC 9110 §15.4.5), and returns its empty payload. */
function withoutContent({ method }: FastifyRequest, reply: FastifyReply): Readable | null {
  reply.removeHeader('content-type').removeHeader('content-length')
  // Fastify's hook for HEAD routes runs later. It fails on null and sets Content-Length for everything except streams.
  return method === 'HEAD' ? Readable.from([]) : null
}

/** Returns the strong entity tag of a row. */
export const strongTag = ({ revision, view, _variant }: Versioned) =>
  view || _variant ? `"${[revision, view, _variant].filter((part) => part !== undefined).join('.')}"` : `"${revision}"`

/** Returns the weak tag of a response without a revision: a hash of its content. */
export const weakTag = (content: string): string => `W/"${hash('sha1', content, 'base64url')}"`

/** Evaluates If-Match by strong comparison, and If-Unmodified-Since only if If-Match is absent. */
function preconditionsHold({ headers }: FastifyRequest, etag: string, resource: Versioned): boolean {
  const match = headers['if-match']
  if (match !== undefined) return matchesRevision(match, etag)
  const since = headers['if-unmodified-since']
  return since === undefined || !(modifiedMs(resource) > parseHttpDate(since))
}

/** Returns whether If-None-Match or, without it, If-Modified-Since shows that the client has the current representation. */
export function isUnchanged(request: FastifyRequest, etag: string, resource: Versioned | undefined): boolean {
  const { headers } = request
  const noneMatch = headers['if-none-match']
  if (noneMatch === etag) return true
  if (noneMatch !== undefined) return noneMatch.trim() === '*' || clientTag(request, etag) !== undefined
  const since = headers['if-modified-since']
  return since !== undefined && resource !== undefined && modifiedMs(resource) <= parseHttpDate(since)
}

/** Evaluates If-Match by strong comparison; tags for all content codings identify the same revision. */
function matchesRevision(match: string, etag: string): boolean {
  const tags = parseEntityTags(match)
  if (tags === 'any') return true
  return tags?.some(({ opaque, isWeak }) => !isWeak && plainTag(opaque)[0] === etag) ?? false
}

/**
 * Returns the tag in If-None-Match that identifies the current representation, uncompressed or in a coding that this request
 * accepts. The server may choose among these representations (RFC 9110 §12.1), so it selects the one that the client has.
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

/**
 * Returns the modification time for evaluating date conditions; NaN if there is no date. Adds one second if an earlier
 * revision has the same date, because a client with the earlier revision would send that date (RFC 9110 §8.8.2.2).
 */
const modifiedMs = ({ updatedAt, sharesSecond, _variant }: Versioned): number =>
  _variant === undefined ? Math.floor(Date.parse(updatedAt) / 1_000) * 1_000 + (sharesSecond ? 1_000 : 0) : Number.NaN

/** Returns whether a row meets a precondition. Unless the row is locked, the UPDATE statement must repeat the check. */
export function meets(resource: Versioned, { matches = 'any', differs = [], unmodifiedSince }: Precondition): boolean {
  const { revision } = resource
  if (matches !== 'any' && !matches.includes(revision)) return false
  if (differs === 'any' || differs.includes(revision)) return false
  return unmodifiedSince === undefined || modifiedMs(resource) <= Date.parse(unmodifiedSince)
}

/**
 * Matches the entity tag of a revision: its number, optionally followed by the view's tag, `reduced`, the day, a digest
 * of time-dependent values, and the content coding.
 */
const revisionTag =
  /^"([1-9][0-9]{0,8})(\.[0-9a-f]{8})?(\.reduced)?(\.[0-9]{4}-[0-9]{2}-[0-9]{2})?(\.[0-9a-f]{16})?(-br|-gzip)?"$/

/** Returns the revision in a tag issued by this service; -1, which no row has, for any other tag. */
const revisionOf = (tag: string): number => Number(revisionTag.exec(tag)?.[1] ?? -1)

/**
 * Returns the preconditions of a PUT, PATCH or DELETE, in the order of RFC 9110 §13.2.2: If-Unmodified-Since counts only if
 * If-Match is absent. Throws 428 if `required` is set and both headers are absent.
 */
export function preconditionOf({ headers }: Pick<FastifyRequest, 'headers'>, required: boolean): Precondition {
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

/** Returns the revisions in a list of tags; null if the list is malformed. Strong comparison skips weak tags. */
function revisionsOf(list: string, isStrong: boolean): 'any' | number[] | null {
  const tags = parseEntityTags(list)
  if (tags === 'any' || tags === null) return tags
  return [...new Set(tags.filter(({ isWeak }) => !(isStrong && isWeak)).map(({ opaque }) => revisionOf(opaque)))]
}

/**
 * Throws PRECONDITION_FAILED if a POST fails a precondition on its collection, which exists but has no date:
 * `If-None-Match: *` fails, and so does any If-Match except `*`, because lists have weak tags.
 */
export function checkPostPreconditions({ headers }: FastifyRequest): void {
  const match = headers['if-match']
  const noneMatch = headers['if-none-match']
  if (match === undefined && noneMatch === undefined) return
  const met =
    (match === undefined || parseEntityTags(match) === 'any') && Array.isArray(parseEntityTags(noneMatch ?? ''))
  if (!met) throw preconditionFailed('The collection')
}
