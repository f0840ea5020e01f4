import { createHash } from 'node:crypto'
import { closeSync, createWriteStream, openSync, readSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ApiResponse, type Call, jsonOf, retryAfterMs } from './api.ts'
import type { ShowProgress } from './screen.ts'

/** A report task as returned by the API. */
export interface DemoTask {
  taskId: string
  status: 'pending' | 'in_progress' | 'completed' | 'failed'
  progress: number
  resultUrl: string
  rowCount: number
  error?: { errorCode: string; message: string }
}

/** Requests a CSV report of all products; returns the path of the report task. */
export async function requestProductReport(call: Call, webhookUrl: string): Promise<string> {
  const json = { reportType: 'products', format: 'csv', webhookUrl }
  const response = await call('POST', '/api/reports', { json })
  await response.body.resume()
  return String(response.headers.location)
}

/**
 * Polls the task until it completes: at the interval that Retry-After specifies, and immediately when `notified` resolves.
 */
export async function followReport(
  call: Call,
  statusPath: string,
  notified: Promise<unknown>,
  showProgress: ShowProgress,
  signal: AbortSignal,
): Promise<DemoTask> {
  for (;;) {
    const response = await call('GET', statusPath)
    const task = await jsonOf<DemoTask>(response)
    showProgress(task.status.replace('_', ' '), task.progress / 100)
    if (task.status === 'completed') return task
    if (task.status === 'failed') throw new Error(`The report failed: ${task.error?.message ?? 'no reason given'}`)
    await Promise.race([sleep(retryAfterMs(response) ?? 1_000, undefined, { signal, ref: false }), notified])
  }
}

/** A downloaded result. */
export interface Download {
  sizeBytes: number
  firstLines: string[]
}

/** Saves a task's result in `folder`. If the result does not match Repr-Digest (RFC 9530), throws and leaves no file. */
export async function downloadReport(call: Call, { taskId, resultUrl }: DemoTask, folder: string): Promise<Download> {
  const file = join(folder, `report-products-${taskId.replace(/[^\w-]/g, '')}.csv`)
  const part = `${file}.part`
  try {
    const response = await call('GET', resultUrl)
    const digest = await save(response, part)
    const expected = String(response.headers['repr-digest'])
    if (!expected.includes(`sha-256=:${digest}:`)) {
      throw new Error(`The digest of the file is ${digest}, but Repr-Digest says ${expected}`)
    }
    renameSync(part, file)
  } finally {
    rmSync(part, { force: true })
  }
  return { sizeBytes: statSync(file).size, firstLines: linesOf(file, 5) }
}

/** Writes a body to a file and returns its SHA-256 in base64. */
async function save({ body }: ApiResponse, file: string): Promise<string> {
  const hash = createHash('sha256')
  const digesting = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      hash.update(chunk)
      yield chunk
    }
  }
  await pipeline(body, digesting, createWriteStream(file, { mode: 0o600 }))
  return hash.digest('base64')
}

function linesOf(file: string, count: number): string[] {
  const start = Buffer.alloc(4_096)
  const open = openSync(file, 'r')
  const length = readSync(open, start)
  closeSync(open)
  return start.toString('utf8', 0, length).split('\r\n').slice(0, count)
}
