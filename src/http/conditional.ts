import { hash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { plainTag, takesCoding } from './codings.ts'
import { isNarrowed } from './fields.ts'
import { Problem } from './problem.ts'

/** What handlers leave on a single resource for this policy to read; response schemas keep it from leaving. */
export interface Revised {
  revision: number
  updatedAt: string
  /** Names the representation when the same revision has several, such as a reduced view. */
  view?: string
}

/** What a write demands of the row it changes (RFC 9110 §13.1), in a form that fits into the UPDATE. */
export interface Precondition {
  /** If-Match: one of these revisions, or any row at all. */
  matches?: 'any' | readonly number[]
  /** If-None-Match: none of these revisions, or no row at all. */
  differs?: 'any' | readonly number[]
  /** If-Unmodified-Since: not changed after this second, as fixed-width ISO text of the first instant after it. */
  unchangedBefore?: string
}

const isRead = (method: string) => method === 'GET' || method === 'HEAD'

/**
 * Conditional reads: a strong ETag made of the revision (weak and made of the content where there is none, or only
 * some fields are sent), Last-Modified, 412 by If-Match or If-Unmodified-Since, and 304 by If-None-Match or
 * If-Modified-Since, in the order of RFC 9110 §13.2.2.
 */
export const conditional = fastifyPlugin(
  async (app) => {
    const httpDate = httpDates()
    app.addHook('preSerialization', (request, reply, payload, done) => {
      const revision = (payload as Partial<Revised> | null)?.revision
      if (revision === undefined || isNarrowed(request)) return done(null, payload)
      const { updatedAt } = payload as Revised
      const etag = strongTag(payload as Revised)
      reply.header('etag', etag)
      if (isRead(request.method)) {
        if (!isAsDemanded(request, etag, updatedAt)) return done(outdated())
        if (isUnchanged(request, etag, updatedAt)) reply.code(304).header('etag', heldTag(request, etag) ?? etag)
      }
      if (reply.statusCode !== 304 && updatedAt) reply.header('last-modified', httpDate(updatedAt))
      done(null, payload)
    })
    app.addHook('onSend', (request, reply, payload, done) => {
      if (reply.statusCode === 304) return done(null, withoutContent(request, reply))
      const plain = typeof payload === 'string' && reply.statusCode === 200 && isRead(request.method)
      if (!plain || reply.hasHeader('etag') || (request.routeOptions.config.cache ?? 'none') === 'none')
        return done(null, payload)
      const etag = `W/"${hash('sha1', payload, 'base64url')}"`
      reply.header('etag', etag)
      if (!isUnchanged(request, etag, undefined)) return done(null, payload)
      reply.code(304)
      done(null, withoutContent(request, reply))
    })
  },
  { name: 'conditional', dependencies: ['fields', 'caching'] },
)

/**
 * The policy's own judgement ahead of it, for the hottest path: true when a GET is answered with 304, its headers set,
 * so that the handler need not make a representation nobody will get. Anything unusual is left to the policy.
 */
export function answersUnchanged(request: FastifyRequest, reply: FastifyReply, resource: Revised): boolean {
  const { headers, method } = request
  if (headers['if-none-match'] === undefined || method !== 'GET' || isNarrowed(request)) return false
  if (headers['if-match'] !== undefined || headers['if-unmodified-since'] !== undefined) return false
  const etag = strongTag(resource)
  if (!isUnchanged(request, etag, undefined)) return false
  reply.code(304).header('etag', heldTag(request, etag) ?? etag)
  return true
}

/** A 304 carries validators and caching headers but nothing that describes content (RFC 9110 §15.4.5). */
function withoutContent({ method }: FastifyRequest, reply: FastifyReply): Readable | null {
  reply.removeHeader('content-type').removeHeader('content-length')
  // Fastify's hook of HEAD routes runs later: it fails on null and sends the length of anything but a stream.
  return method === 'HEAD' ? Readable.from([]) : null
}

const strongTag = ({ revision, view }: Revised) => (view ? `"${revision}.${view}"` : `"${revision}"`)

const datesKept = 1_000

/** Fixed-width ISO text → HTTP date (RFC 9110 §5.6.7), remembered: the same rows are read again and again. */
function httpDates(): (iso: string) => string {
  const dates = new Map<string, string>()
  return (iso) => {
    const known = dates.get(iso)
    if (known !== undefined) return known
    if (dates.size >= datesKept) dates.clear()
    const made = new Date(iso).toUTCString()
    dates.set(iso, made)
    return made
  }
}

const outdated = () => new Problem('PRECONDITION_FAILED', 'The resource does not meet the conditions of the request')

/** If-Match by strong comparison; without it If-Unmodified-Since. */
function isAsDemanded({ headers }: FastifyRequest, etag: string, updatedAt: string): boolean {
  const match = headers['if-match']
  if (match !== undefined) return match.trim() === '*' || strongTags(match).some((tag) => plainTag(tag)[0] === etag)
  const since = headers['if-unmodified-since']
  return since === undefined || !updatedAt || !(wholeSeconds(Date.parse(updatedAt)) > parseHttpDate(since))
}

function isUnchanged(request: FastifyRequest, etag: string, updatedAt: string | undefined): boolean {
  const { headers } = request
  const noneMatch = headers['if-none-match']
  if (noneMatch === etag) return true
  if (noneMatch !== undefined) return noneMatch.trim() === '*' || heldTag(request, etag) !== undefined
  const since = headers['if-modified-since']
  if (since === undefined || updatedAt === undefined) return false
  return wholeSeconds(Date.parse(updatedAt)) <= parseHttpDate(since)
}

/**
 * The tag of what the client holds, if that is the current representation: plain, or in a coding that this request
 * takes too. Which of them is the selected one is ours to say (RFC 9110 §12.1), so it is the one the client has.
 */
function heldTag({ headers }: FastifyRequest, etag: string): string | undefined {
  const sent = headers['if-none-match'] ?? ''
  if (sent === etag) return etag
  const tags = weakTags(sent)
  if (tags.includes(opaque(etag))) return etag
  return tags.find((tag) => {
    const [plain, coding] = plainTag(tag)
    return plain === etag && coding !== undefined && takesCoding(headers['accept-encoding'], coding)
  })
}

const currentDate =
  /^([A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4}|[A-Z][a-z]+day, \d\d-[A-Z][a-z]{2}-\d\d) \d\d:\d\d:\d\d GMT$/
const ansiDate = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$/

/** The three forms of an HTTP date (RFC 9110 §5.6.7) as epoch ms; NaN for anything else, which is to be ignored. */
function parseHttpDate(text: string): number {
  if (currentDate.test(text)) return Date.parse(text)
  return ansiDate.test(text) ? Date.parse(`${text} GMT`) : Number.NaN
}

const wholeSeconds = (ms: number) => Math.floor(ms / 1_000) * 1_000
const opaque = (etag: string) => etag.replace(/^W\//, '')
const entityTag = /(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"/g

/** The opaque parts of a list of entity tags, for weak comparison (RFC 9110 §8.8.3.2). */
const weakTags = (list: string): string[] => [...list.matchAll(entityTag)].map(([, , tag]) => `"${tag}"`)

/** The strong tags of a list, for strong comparison. */
const strongTags = (list: string): string[] =>
  [...list.matchAll(entityTag)].filter(([, weak]) => !weak).map(([tag]) => tag)

/** The revisions named by the strong tags of a list: weak ones never match a write. */
const strongRevisions = (list: string): number[] => strongTags(list).map((tag) => revisionOf(tag.slice(1, -1)))

const weakRevisions = (list: string): number[] =>
  [...list.matchAll(entityTag)].map(([, , tag]) => revisionOf(tag as string))

/** The revision inside one of our tags; -1, which no row has, for any other. */
const revisionOf = (tag: string): number => Number(/^([1-9][0-9]{0,8})(\.[a-z]+)?(-br|-gzip)?$/.exec(tag)?.[1] ?? -1)

/**
 * The demands of a PUT, PATCH or DELETE in the order of RFC 9110 §13.2.2: If-Unmodified-Since counts only without
 * If-Match. Throws 428 when `required` and neither is there.
 */
export function preconditionOf({ headers }: FastifyRequest, required: boolean): Precondition {
  const match = headers['if-match']
  const noneMatch = headers['if-none-match']
  const since = parseHttpDate(headers['if-unmodified-since'] ?? '')
  if (required && match === undefined && Number.isNaN(since)) {
    throw new Problem('PRECONDITION_REQUIRED', 'Send If-Match with the ETag of the revision you have read')
  }
  const demands: Precondition = {}
  if (match !== undefined) demands.matches = match.trim() === '*' ? 'any' : strongRevisions(match)
  else if (!Number.isNaN(since)) demands.unchangedBefore = new Date(wholeSeconds(since) + 1_000).toISOString()
  if (noneMatch !== undefined) demands.differs = noneMatch.trim() === '*' ? 'any' : weakRevisions(noneMatch)
  return demands
}
