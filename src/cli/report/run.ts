import { createHash } from 'node:crypto'
import { createWriteStream, renameSync, rmSync } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { type ApiResponse, type Call, jsonOf } from '../demo/api.ts'
import type { ShowProgress } from '../demo/screen.ts'

/** A report task as returned by the API. */
export interface ReportTask {
  taskId: string
  status: 'pending' | 'in_progress' | 'completed' | 'failed'
  reportType: string
  format: string
  progress: number
  createdAt: string
  rowCount?: number
  sizeBytes?: number
  resultUrl?: string
  error?: { errorCode: string; message: string }
}

/** Requests a report and returns its task. */
export const requestReport = async (call: Call, request: object): Promise<ReportTask> =>
  jsonOf<ReportTask>(await call('POST', '/api/reports', { json: request }))

/** Follows a task's event stream and shows the progress until the task completes; throws if the task fails. */
export async function follow(call: Call, taskId: string, showProgress: ShowProgress): Promise<ReportTask> {
  let lastEventId = ''
  for (;;) {
    const headers = { accept: 'text/event-stream', ...(lastEventId !== '' && { 'last-event-id': lastEventId }) }
    const { body } = await call('GET', `/api/reports/${taskId}/events`, { headers })
    // If the stream ends early, the next request resumes after the last event received.
    const states = events(body)
    for await (const { id, task } of states) {
      lastEventId = id
      showProgress(task.status.replace('_', ' '), task.progress / 100)
      if (task.status === 'completed') return task
      if (task.status === 'failed') throw new Error(`The report failed: ${task.error?.message ?? 'no reason given'}`)
    }
  }
}

/** Parses an event stream (HTML Living Standard §9.2.6); yields the events that contain a task. */
async function* events(body: ApiResponse['body']): AsyncIterable<{ id: string; task: ReportTask }> {
  let text = ''
  for await (const chunk of body.setEncoding('utf8')) {
    text += chunk
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const fields = new Map(
        text
          .slice(0, end)
          .split('\n')
          .map((line) => line.split(/: (.*)/s) as [string, string]),
      )
      text = text.slice(end + 2)
      const [id, data] = [fields.get('id'), fields.get('data')]
      if (id && data) yield { id, task: JSON.parse(data) as ReportTask }
    }
  }
}

/**
 * Saves the result in `file`. If the result does not match Repr-Digest (RFC 9530), throws and does not write `file`.
 */
export async function save(
  call: Call,
  { resultUrl, sizeBytes = 0 }: ReportTask,
  file: string,
  showProgress: ShowProgress,
): Promise<void> {
  const response = await call('GET', resultUrl as string)
  const hash = createHash('sha256')
  const part = `${file}.part`
  let received = 0
  const digesting = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      hash.update(chunk)
      received += chunk.length
      showProgress('downloading', received / sizeBytes)
      yield chunk
    }
  }
  try {
    await pipeline(response.body, digesting, createWriteStream(part))
    const digest = `sha-256=:${hash.digest('base64')}:`
    const expected = String(response.headers['repr-digest'])
    if (digest !== expected) throw new Error(`The digest of the file is ${digest}, but Repr-Digest says ${expected}`)
    renameSync(part, file)
  } finally {
    rmSync(part, { force: true })
  }
}
