import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { matchesTag } from '../http/headers/entity-tags.ts'
import { callerOf } from '../http/policies/authenticate.ts'
import { Problem } from '../http/problems/problem.ts'
import { responseEnd, whenAborted } from '../http/server/response-end.ts'
import { acquireSlot, type SlotLimiter } from './slots.ts'
import type { ByteRange, ResultStore } from './store.ts'

/** A file in a store, and how to send it. */
export interface SentFile {
  key: string
  /** The file name that the client is offered. */
  name: string
  mediaType: string
  sizeBytes: number
  /** In base64. */
  sha256: string
  open: ResultStore['open']
  /** Limits concurrent downloads. If omitted, there is no limit. */
  downloads?: SlotLimiter | undefined
}

/** Responds with a file: all of it, one range, or 304. Throws a `Problem` if a precondition is not met. */
export async function sendFile(file: SentFile, request: FastifyRequest, reply: FastifyReply) {
  const etag = `"${file.sha256}"`
  const { headers, method } = request
  if (headers['if-match'] !== undefined && !matchesTag(headers['if-match'], etag, 'strong')) {
    throw new Problem('PRECONDITION_FAILED', "The result's ETag does not match If-Match")
  }
  // For HEAD, an empty stream, because the framework would set Content-Length to 0 for an empty body.
  const nothing = () => (method === 'HEAD' ? Readable.from([]) : undefined)
  if (headers['if-none-match'] !== undefined && matchesTag(headers['if-none-match'], etag, 'weak')) {
    return reply.code(304).header('etag', etag).send(nothing())
  }
  // Ranges are defined only for GET (RFC 9110 §14.2).
  const range = method === 'GET' ? wantedRange(headers, etag, file.sizeBytes) : undefined
  const content = method === 'GET' ? await opened(file, range, request, reply) : nothing()
  return reply
    .code(range ? 206 : 200)
    .headers(fileHeaders(file, etag, range))
    .send(content)
}

/** Opens the file for the duration of the response; when the response ends, reading stops and the slot is released. */
async function opened(
  { key, open, downloads }: SentFile,
  range: ByteRange | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Readable> {
  const end = responseEnd(reply)
  if (downloads) acquireSlot(downloads, callerOf(request), end, 'downloads')
  const content = await open(key, range, end)
  whenAborted(end, () => content.destroy())
  return content
}

/**
 * Returns the requested range, unless If-Range prevents it: the entity tag must match by strong comparison (RFC 9110
 * §13.1.5).
 */
function wantedRange(headers: FastifyRequest['headers'], etag: string, sizeBytes: number): ByteRange | undefined {
  const condition = headers['if-range']
  if (condition !== undefined && condition !== etag) return undefined
  const range = rangeOf(headers.range, sizeBytes)
  if (range !== 'unsatisfiable') return range
  const contentRange = { 'content-range': `bytes */${sizeBytes}`, 'accept-ranges': 'bytes' }
  throw new Problem('RANGE_NOT_SATISFIABLE', `The result has ${sizeBytes} bytes`, { headers: contentRange })
}

function fileHeaders({ name, mediaType, sizeBytes, sha256 }: SentFile, etag: string, range: ByteRange | undefined) {
  const { start, end } = range ?? { start: 0, end: sizeBytes - 1 }
  return {
    'content-type': mediaType,
    'content-disposition': `attachment; filename="${name}"`,
    'content-length': String(end - start + 1),
    'accept-ranges': 'bytes',
    etag,
    // The digest covers the whole file, even if only a range is sent (RFC 9530 §3).
    'repr-digest': `sha-256=:${sha256}:`,
    ...(range && { 'content-range': `bytes ${start}-${end}/${sizeBytes}` }),
  }
}

const singleRange = /^bytes=[\t ]*(\d*)-(\d*)[\t ]*$/i

/**
 * Parses a Range header (RFC 9110 §14.1.2). Returns undefined for the whole file if the header is missing or malformed,
 * has an unknown unit, or contains multiple ranges; the RFC allows servers to ignore such headers.
 */
export function rangeOf(header: string | undefined, sizeBytes: number): ByteRange | 'unsatisfiable' | undefined {
  const found = singleRange.exec(header ?? '')
  if (!found) return undefined
  const [, first, last] = found
  if (first === '') return suffix(last as string, sizeBytes)
  const start = Number(first)
  const end = last === '' ? sizeBytes - 1 : Math.min(Number(last), sizeBytes - 1)
  if (last !== '' && Number(last) < start) return undefined
  return start < sizeBytes ? { start, end } : 'unsatisfiable'
}

function suffix(length: string, sizeBytes: number): ByteRange | 'unsatisfiable' | undefined {
  if (length === '') return undefined
  const wanted = Math.min(Number(length), sizeBytes)
  return wanted > 0 ? { start: sizeBytes - wanted, end: sizeBytes - 1 } : 'unsatisfiable'
}
