import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { matchesTag } from '../http/headers/entity-tags.ts'
import { callerOf } from '../http/policies/authenticate.ts'
import { Problem } from '../http/problems/problem.ts'
import { responseEnd, whenAborted } from '../http/server/response-end.ts'
import type { Task } from '../storage/tables/tables.ts'
import type { ByteRange, ResultStore } from './files/store.ts'
import type { ReportFormat } from './formats/format.ts'
import { formats } from './formats/formats.ts'
import { acquireSlot, type SlotLimiter } from './slots.ts'
import { isFinished, pollSeconds } from './tasks.ts'

export interface DownloadOptions {
  results: ResultStore
  downloads?: SlotLimiter
  now: () => number
}

/** A task whose result can be downloaded. */
type Completed = Task & { resultKey: string; sha256: string; sizeBytes: number }

/**
 * Responds with a task's result: all of it, one range, or 304. Throws a `Problem` if the result is not available yet or no
 * longer exists.
 */
export async function download(options: DownloadOptions, task: Task, request: FastifyRequest, reply: FastifyReply) {
  const result = available(task, options.now())
  const etag = `"${result.sha256}"`
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
  const range = method === 'GET' ? wantedRange(headers, etag, result.sizeBytes) : undefined
  const content = method === 'GET' ? await opened(options, result.resultKey, range, request, reply) : nothing()
  return reply
    .code(range ? 206 : 200)
    .headers(resultHeaders(result, etag, range))
    .send(content)
}

/** Opens the result for the duration of the response; when the response ends, reading stops and the slot is released. */
async function opened(
  { results, downloads }: DownloadOptions,
  resultKey: string,
  range: ByteRange | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Readable> {
  const end = responseEnd(reply)
  if (downloads) acquireSlot(downloads, callerOf(request), end, 'downloads')
  const content = await results.open(resultKey, range, end)
  whenAborted(end, () => content.destroy())
  return content
}

function available(task: Task, nowMs: number): Completed {
  if (task.status === 'failed') throw new Problem('TASK_FAILED', 'The task has failed and has no result')
  if (!isFinished(task)) {
    const headers = { 'retry-after': String(pollSeconds(task, nowMs)) }
    throw new Problem('TASK_NOT_COMPLETED', 'The result is not ready yet', { headers })
  }
  const expired = Date.parse(task.expiresAt as string) <= nowMs
  if (expired) throw new Problem('RESULT_EXPIRED', 'The result has expired: request the report again')
  return task as Completed
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

function resultHeaders(task: Completed, etag: string, range: ByteRange | undefined) {
  const { mediaType, extension } = formats.get(task.format) as ReportFormat
  const { start, end } = range ?? { start: 0, end: task.sizeBytes - 1 }
  return {
    'content-type': mediaType,
    'content-disposition': `attachment; filename="report-${task.reportType}-${task.id}.${extension}"`,
    'content-length': String(end - start + 1),
    'accept-ranges': 'bytes',
    etag,
    // The digest covers the whole result, even if only a range is sent (RFC 9530 §3).
    'repr-digest': `sha-256=:${task.sha256}:`,
    ...(range && { 'content-range': `bytes ${start}-${end}/${task.sizeBytes}` }),
  }
}

const singleRange = /^bytes=[\t ]*(\d*)-(\d*)[\t ]*$/i

/**
 * Parses a Range header (RFC 9110 §14.1.2). Returns undefined for the whole result if the header is missing or malformed,
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
