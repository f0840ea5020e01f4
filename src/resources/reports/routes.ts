import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, type TSchema, Type } from 'typebox'
import { newId, type RandomBytes } from '../../db/ids.ts'
import type { Database } from '../../db/open.ts'
import type { Task } from '../../db/tables.ts'
import { lacksScope } from '../../http/authorize.ts'
import { judgeAddition } from '../../http/conditional.ts'
import { type Caller, callerOf } from '../../http/identify.ts'
import { once } from '../../http/once.ts'
import { limitOf } from '../../http/paging.ts'
import { type FieldError, Problem } from '../../http/problem.ts'
import type { Queue } from '../../queue/queue.ts'
import type { ResultStore } from '../../results/store.ts'
import { download } from './download.ts'
import { formats } from './formats.ts'
import type { ReportKind } from './kinds.ts'
import { newsOf } from './news.ts'
import {
  type ReportRequest,
  ReportType,
  reportRequest,
  TaskListQuery,
  TaskParams,
  TaskQuery,
  TaskView,
} from './schemas.ts'
import { createTask, findTask, instant, isFinished, listTasks, pollSeconds, statusPath, taskView } from './tasks.ts'
import type { TaskWatch } from './watch.ts'

export interface ReportsOptions {
  db: Database
  queue: Queue
  results: ResultStore
  kinds: readonly ReportKind[]
  now: () => number
  random: RandomBytes
  /** Where clients wait for a task to change; without it none waits. */
  watch?: TaskWatch
  /** Whether a request's `webhookUrl` may be called, and why not; without it every address is taken. */
  judgeCallback?: (url: string) => Promise<{ ok: true } | { ok: false; reason: string }>
}

type App = Parameters<FastifyPluginAsyncTypebox>[0]
type Schemas = { params?: TSchema; querystring?: TSchema; body?: TSchema; response: object }

/** Report tasks over HTTP: ask for a report, watch it, download it; mounted once per prefix of the API. */
export const reports: FastifyPluginAsyncTypebox<ReportsOptions> = async (app, options) => {
  createRoute(app, options)
  listRoutes(app, options)
  readRoutes(app, options)
  downloadRoute(app, options)
}

const about = <T extends Schemas>(operationId: string, summary: string, schemas: T) => ({
  operationId,
  summary,
  tags: ['reports'],
  ...schemas,
})

const reading = { scope: 'reports:read', cache: 'private', fields: true } as const

function createRoute(app: App, options: ReportsOptions): void {
  const body = reportRequest(options.kinds.map(({ name }) => name))
  const schema = about('createReport', 'Ask for a report', { body, response: { 202: TaskView } })
  const problems = ['CALLBACK_URL_BLOCKED'] as const
  const config = { scope: 'reports:write', cache: 'none', minimal: true, problems } as const
  app.post('/api/reports', { schema, config }, async (request, reply) => {
    const { db, queue, now, random } = options
    const owner = callerOf(request)
    await judge(options, request.body, owner)
    judgeAddition(request)
    const { reportType, format, webhookUrl = null } = request.body
    const task = { id: newId('tsk', random), reportType, format, webhookUrl, versionPrefix: app.prefix }
    const at = instant(now())
    return once(request, reply, db.write, async (tx) => {
      const created = await createTask(tx, queue, task, owner, at)
      const headers = { location: statusPath(created), 'retry-after': '1' }
      return { status: 202, headers, body: taskView(created) }
    })
  })
}

/** Throws what speaks against the request: a type or format that is not offered, a scope, the callback's address. */
async function judge(options: ReportsOptions, body: ReportRequest, owner: Caller): Promise<void> {
  const { kinds, judgeCallback } = options
  const { reportType, format, webhookUrl = null } = body
  const names = kinds.map(({ name }) => name)
  const errors = [
    ...unlessOneOf('reportType', reportType, names),
    ...unlessOneOf('format', format, [...formats.keys()]),
  ]
  if (errors.length > 0) throw new Problem('VALIDATION_ERROR', 'Some fields break a rule', { errors })
  const scope = kinds.find(({ name }) => name === reportType)?.scope
  if (scope && !owner.scopes.has(scope)) throw lacksScope(scope)
  const verdict = webhookUrl !== null && judgeCallback ? await judgeCallback(webhookUrl) : { ok: true as const }
  if (!verdict.ok) {
    const refused = [{ field: 'webhookUrl', message: verdict.reason }]
    throw new Problem('CALLBACK_URL_BLOCKED', 'The service may not call this address', { errors: refused })
  }
}

const unlessOneOf = (field: string, value: string, allowed: string[]): FieldError[] =>
  allowed.includes(value) ? [] : [{ field, message: `must be one of: ${allowed.join(', ')}` }]

function listRoutes(app: App, { db, kinds }: ReportsOptions): void {
  const querystring = TaskListQuery
  const tasks = about('listReports', 'List your reports', { querystring, response: { 200: Type.Array(TaskView) } })
  app.get('/api/reports', { schema: tasks, config: reading }, async (request) =>
    (await listTasks(db, callerOf(request), limitOf(request.query.limit))).map(taskView),
  )
  const types = about('listReportTypes', 'List the report types', { response: { 200: Type.Array(ReportType) } })
  const offered = kinds.map(({ name, columns }) => ({
    reportType: name,
    formats: [...formats.keys()],
    columns: columns.map((column) => ({ name: column.name, type: column.type })),
  }))
  app.get('/api/report-types', { schema: types, config: { ...reading, fields: false } }, async () => offered)
}

function readRoutes(app: App, options: ReportsOptions): void {
  const common = { params: TaskParams, querystring: TaskQuery, response: { 200: TaskView } }
  const handler = async (request: FastifyRequest, reply: FastifyReply) => {
    const read = () => ownTask(options, request)
    const task = await newsOf(await read(), read, request, reply, options.watch)
    if (!isFinished(task)) reply.header('retry-after', String(pollSeconds(task, options.now())))
    return taskView(task)
  }
  const schema = about('readReport', 'Read a report task', common)
  const config = { ...reading, waits: true, headers: ['Retry-After'] } as const
  app.get('/api/reports/:taskId', { schema, config }, handler)
  const status = about('readReportStatus', 'Read the status of a report task', common)
  app.get('/api/reports/:taskId/status', { schema: status, config }, handler)
}

async function ownTask({ db }: ReportsOptions, request: FastifyRequest): Promise<Task> {
  const { taskId } = request.params as Static<typeof TaskParams>
  const task = await findTask(db, taskId, callerOf(request))
  if (!task) throw new Problem('RESOURCE_NOT_FOUND', 'There is no such task')
  return task
}

function downloadRoute(app: App, options: ReportsOptions): void {
  const file = { schema: Type.String({ format: 'binary' }) }
  const content = Object.fromEntries([...formats.values()].map(({ mediaType }) => [mediaType, file]))
  const response = {
    200: { description: 'The result', content },
    206: { description: 'The requested range of the result', content },
  }
  const schema = about('downloadReport', 'Download the result of a report', { params: TaskParams, response })
  const problems = ['TASK_NOT_COMPLETED', 'TASK_FAILED', 'RESULT_EXPIRED'] as const
  const config = { scope: 'reports:read', cache: 'none', problems } as const
  app.get('/api/reports/:taskId/download', { schema, config }, async (request, reply) =>
    download(options.results, await ownTask(options, request), request, reply, options.now()),
  )
}
