import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { Definition } from '../../src/definition/service.ts'
import { reportKinds } from '../../src/mount-versions.ts'
import { generate } from '../../src/reports/generate/generate.ts'
import type { Produce } from '../../src/reports/generate/report-threads.ts'
import { rowAccess } from '../../src/row-access.ts'
import type { Database } from '../../src/storage/database.ts'
import type { TestApp } from './app.ts'
import { produceHere } from './reports.ts'

export interface ReportService {
  service: TestApp & { db: Database }
  definition: Definition
  scopes: string
}

interface Options {
  format?: string
  /** The access token of the request; by default, one with every scope of the service. */
  token?: string
  produce?: Produce
  /** Called after the report is requested and before it is generated. */
  meanwhile?: () => unknown
}

/** Makes one attempt at a requested report. Returns the task, and the errors that the service would log. */
export async function attempt(
  { service, definition, scopes }: ReportService,
  taskId: string,
  { produce, token }: Options = {},
): Promise<{
  task: { status: string; rowCount?: number; error?: { errorCode: string; message: string } }
  errors: unknown[]
}> {
  const { db, results, clock } = service
  const errors: unknown[] = []
  const now = () => clock.now
  const queue = { enqueue: async () => {}, work: () => {}, stop: async () => {} }
  const job = { payload: { taskId }, attempt: 1, signal: new AbortController().signal, finish: async () => {} }
  await generate({
    ...{ db, queue, results, kinds: reportKinds(definition), random: randomBytes, resultSeconds: 60, now },
    access: rowAccess(definition, { db, now }).reportAccess,
    produce: produce ?? produceHere(results, db.url),
    onError: (error) => errors.push(error),
  })(job)
  const sender = token === undefined ? { scopes } : { token }
  const task = await service.send({ url: `/api/reports/${taskId}`, ...sender })
  return { task: task.json(), errors }
}

/** Requests a report, generates it and downloads its file. */
export async function reportFile(
  at: ReportService,
  reportType: string,
  parameters: object = {},
  options: Options = {},
): Promise<Buffer> {
  const { format = 'json', token, meanwhile } = options
  const sender = token === undefined ? { scopes: at.scopes } : { token }
  const payload = { reportType, format, parameters }
  const response = await at.service.send({ method: 'POST', url: '/api/reports', payload, ...sender })
  assert.equal(response.statusCode, 202, response.body)
  await meanwhile?.()
  const { taskId } = response.json()
  const { task } = await attempt(at, taskId, options)
  assert.equal(task.status, 'completed', JSON.stringify(task))
  const file = await at.service.send({ url: `/api/reports/${taskId}/download`, ...sender })
  assert.equal(file.statusCode, 200, file.body)
  return file.rawPayload
}
