import type { FastifyReply, FastifyRequest } from 'fastify'
import { sendFile } from '../files/send-file.ts'
import type { SlotLimiter } from '../files/slots.ts'
import type { ResultStore } from '../files/store.ts'
import { Problem } from '../http/problems/problem.ts'
import type { Task } from '../storage/tables/tables.ts'
import type { ReportFormat } from './formats/format.ts'
import { formats } from './formats/formats.ts'
import { isFinished, pollSeconds } from './tasks.ts'

export interface DownloadOptions {
  results: ResultStore
  downloads?: SlotLimiter
  now: () => number
}

/** A task whose result can be downloaded. */
type Completed = Task & { resultKey: string; sha256: string; sizeBytes: number }

/**
 * Responds with a task's result: all of it, one range, or 304. Throws a `Problem` if the task has not finished, has
 * failed, or its result has expired.
 */
export function download(options: DownloadOptions, task: Task, request: FastifyRequest, reply: FastifyReply) {
  const { results, downloads, now } = options
  const { resultKey: key, reportType, id, format, sizeBytes, sha256 } = available(task, now())
  const { mediaType, extension } = formats.get(format) as ReportFormat
  const name = `report-${reportType}-${id}.${extension}`
  return sendFile({ key, name, mediaType, sizeBytes, sha256, open: results.open, downloads }, request, reply)
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
