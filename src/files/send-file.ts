import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { matchesTag } from '../http/headers/entity-tags.ts'
import { parseHttpDate } from '../http/headers/http-date.ts'
import { Problem, preconditionFailed } from '../http/problems/problem.ts'
import { responseEnd, whenAborted } from '../http/server/response-end.ts'
import { acquireSlot, type SlotLimiter, type SlotOwner } from './slots.ts'
import type { ByteRange, ResultStore } from './store.ts'

/** A file in a store, and how to send it. */
export interface SentFile {
  key: string
  /** The file name in Content-Disposition, which browsers offer for saving. */
  name: string
  mediaType: string
  sizeBytes: number
  /** The digest of the file, in base64. */
  sha256: string
  /** When the file was stored; if omitted, the response has no Last-Modified. */
  storedAt?: { ms: number; sharesSecond: boolean }
  open: ResultStore['open']
  /** Limits concurrent downloads. If omitted, there is no limit. */
  downloads?: SlotLimiter | undefined
}

/**
 * Responds with the whole file, one range, or 304. Throws a `Problem` if a precondition fails, the range cannot be
 * satisfied, or too many downloads are open.
 */
export async function sendFile(file: SentFile, request: FastifyRequest, reply: FastifyReply) {
  const etag = `"${file.sha256}"`
  const { headers, method } = request
  if (!isExpected(file, headers, etag)) throw preconditionFailed('The file')
  // HEAD gets an empty stream, because for an empty body, the framework would set Content-Length to 0.
  const nothing = () => (method === 'HEAD' ? Readable.from([]) : undefined)
  if (isUnchanged(file, headers, etag)) return reply.code(304).header('etag', etag).send(nothing())
  // Ranges are defined only for GET (RFC 9110 §14.2).
  const range = method === 'GET' ? wantedRange(headers, etag, file.sizeBytes) : undefined
  const content = method === 'GET' ? await opened(file, range, request, reply) : nothing()
  return reply
    .code(range ? 206 : 200)
    .headers(fileHeaders(file, etag, range))
    .send(content)
}

/** Returns the account of a request; without a valid token, the client address stands in for the account. */
const accountOf = ({ caller, ip }: FastifyRequest): SlotOwner =>
  caller && 'caller' in caller ? caller.caller : { clientId: ip, subject: '' }

/** Evaluates If-Match and, without it, If-Unmodified-Since (RFC 9110 §13.2.2). */
function isExpected(file: SentFile, headers: FastifyRequest['headers'], etag: string): boolean {
  const match = headers['if-match']
  if (match !== undefined) return matchesTag(match, etag, 'strong')
  const since = headers['if-unmodified-since']
  return since === undefined || !(storedMs(file) > parseHttpDate(since))
}

/** Evaluates If-None-Match and, without it, If-Modified-Since. */
function isUnchanged(file: SentFile, headers: FastifyRequest['headers'], etag: string): boolean {
  const noneMatch = headers['if-none-match']
  if (noneMatch !== undefined) return matchesTag(noneMatch, etag, 'weak')
  const since = headers['if-modified-since']
  return since !== undefined && storedMs(file) <= parseHttpDate(since)
}

/**
 * Returns the modification time for evaluating date conditions; NaN if it is unknown. Adds one second if another file
 * was stored in the same second, because a client with that file would send the same date.
 */
const storedMs = ({ storedAt }: SentFile): number =>
  storedAt === undefined ? Number.NaN : Math.floor(storedAt.ms / 1_000) * 1_000 + (storedAt.sharesSecond ? 1_000 : 0)

/** Opens the file for the duration of the response; when the response ends, reading stops and the slot is released. */
async function opened(
  { key, open, downloads }: SentFile,
  range: ByteRange | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Readable> {
  const end = responseEnd(reply)
  if (downloads) acquireSlot(downloads, accountOf(request), end, 'downloads')
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
  throw new Problem('RANGE_NOT_SATISFIABLE', `The file has ${sizeBytes} bytes`, { headers: contentRange })
}

function fileHeaders(
  { name, mediaType, sizeBytes, sha256, storedAt }: SentFile,
  etag: string,
  range: ByteRange | undefined,
) {
  const { start, end } = range ?? { start: 0, end: sizeBytes - 1 }
  return {
    'content-type': mediaType,
    'content-disposition': `attachment; filename="${name}"`,
    'content-length': String(end - start + 1),
    'accept-ranges': 'bytes',
    etag,
    ...(storedAt && { 'last-modified': new Date(storedAt.ms).toUTCString() }),
    // The digest covers the whole file, even if only a range is sent (RFC 9530 §3).
    'repr-digest': `sha-256=:${sha256}:`,
    ...(range && { 'content-range': `bytes ${start}-${end}/${sizeBytes}` }),
  }
}

const singleRange = /^bytes=[\t ]*(\d*)-(\d*)[\t ]*$/i

/**
 * Parses a Range header (RFC 9110 §14.1.2). Returns undefined, which means the whole file, if the header is missing or
 * malformed, has an unknown unit, or contains multiple ranges; the RFC allows servers to ignore such headers.
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
