import type { FastifyReply, FastifyRequest } from 'fastify'
import type { CachedResponse } from './fast-path/cached-response.ts'
import { httpDate } from './headers/http-date.ts'
import { clientTag, isUnchanged, strongTag, type Versioned } from './policies/conditional.ts'
import { isNarrowed } from './policies/partial-response.ts'

/** A serialized representation with its validators. */
export interface Representation extends CachedResponse {
  lastModified: string
}

/** Serializes a row and computes its validators, for `sendRepresentation`. */
export const representationOf = (resource: Versioned, serialize: (resource: Versioned) => string): Representation => ({
  text: serialize(resource),
  etag: strongTag(resource),
  lastModified: httpDate(resource.updatedAt),
})

/**
 * Returns true if a GET request is for the whole representation and has no precondition except If-None-Match.
 * If-Modified-Since is allowed together with If-None-Match, which takes precedence.
 */
export function isUnconditionalRead(request: FastifyRequest): boolean {
  const { headers, method } = request
  if (method !== 'GET' || headers['if-match'] !== undefined || headers['if-unmodified-since'] !== undefined)
    return false
  return (headers['if-modified-since'] === undefined || headers['if-none-match'] !== undefined) && !isNarrowed(request)
}

/**
 * Responds without the `conditional` policy to requests for which `isUnconditionalRead` is true: 304 if the client already
 * has the representation, otherwise 200.
 */
export function sendRepresentation(request: FastifyRequest, reply: FastifyReply, representation: Representation) {
  const { etag } = representation
  if (!isUnchanged(request, etag, undefined)) return sendWhole(reply, representation)
  reply.code(304).header('etag', clientTag(request, etag) ?? etag)
  return reply.send()
}

/** Responds with a representation and its validators, without the `conditional` policy. */
export function sendWhole(reply: FastifyReply, { etag, lastModified, text }: Representation) {
  reply.header('etag', etag).header('last-modified', lastModified)
  return reply.header('content-type', 'application/json; charset=utf-8').send(text)
}
