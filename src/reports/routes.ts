import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { addLink } from '../http/headers/vary.ts'
import { authorOf, callerOf } from '../http/policies/authenticate.ts'
import { requireScope } from '../http/policies/authorize.ts'
import { checkPostPreconditions, preconditionOf } from '../http/policies/conditional.ts'
import { Problem } from '../http/problems/problem.ts'
import { requesterOf } from '../http/requester.ts'
import { idempotentWrite } from '../idempotency/idempotent-write.ts'
import type { Queryable } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import { cancel, deleteTask } from './cancel-and-delete.ts'
import { formats } from './formats/formats.ts'
import { listTasks, TaskListQuery } from './list.ts'
import { parametersSchema } from './parameters.ts'
import { about, isPrivate, ownTask, type ReportsOptions } from './route-parts.ts'
import { documentedRequest, type ReportRequest, ReportType, TaskParams, TaskQuery, TaskView } from './schemas.ts'
import { downloadRoute, eventsRoute } from './stream-routes.ts'
import { createTask, isFinished, listedTask, pollSeconds, queryOf, statusPath, taskView } from './tasks.ts'
import { requestValidator, validateReportRequest } from './validate.ts'
import { waitForChange } from './wait-for-change.ts'

type App = Parameters<FastifyPluginAsyncTypebox>[0]

/** Report tasks over HTTP: routes to request, watch and download reports, mounted once per API prefix. */
export const reports: FastifyPluginAsyncTypebox<ReportsOptions> = async (app, options) => {
  createRoutes(app, options)
  listRoutes(app, options)
  readRoutes(app, options)
  eventsRoute(app, options)
  endRoutes(app, options)
  downloadRoute(app, options)
}

const reading = { scope: 'reports:read', cache: 'private', fields: true } as const
const writing = { scope: 'reports:write', cache: 'none' } as const

const refusals = ['CALLBACK_URL_BLOCKED', 'RATE_LIMIT_EXCEEDED'] as const

function createRoutes(app: App, options: ReportsOptions): void {
  const response = { 202: TaskView }
  const schema = about('createReport', 'Request a report', { body: documentedRequest(options.kinds), response })
  const config = { ...writing, minimal: true, limit: 'reports', problems: refusals } as const
  const validatorCompiler = requestValidator(options)
  app.post('/api/reports', { schema, config, validatorCompiler }, (request, reply) =>
    accept(app, options, request.body, request, reply),
  )
  const retry = about('retryReport', 'Retry a finished report', { params: TaskParams, response })
  const repeats = { ...config, problems: ['TASK_NOT_COMPLETED', ...refusals] } as const
  app.post('/api/reports/:taskId/retry', { schema: retry, config: repeats }, async (request, reply) => {
    const task = await ownTask(options, request)
    if (!isFinished(task)) throw new Problem('TASK_NOT_COMPLETED', 'Only a task that has ended can be retried')
    const { reportType, format, webhookUrl, id: retryOf } = task
    const body = { reportType, format, parameters: queryOf(task), ...(webhookUrl !== null && { webhookUrl }) }
    return accept(app, options, body, request, reply, retryOf)
  })
}

/** Creates the requested task and its job, and commits both before responding. */
async function accept(
  { prefix: versionPrefix }: App,
  options: ReportsOptions,
  body: ReportRequest,
  request: FastifyRequest,
  reply: FastifyReply,
  retryOf?: string,
) {
  const { db, queue, now } = options
  const owner = callerOf(request)
  const wanted = await validateReportRequest(options, body, { owner, versionPrefix, ...(retryOf && { retryOf }) })
  checkPostPreconditions(request)
  const at = iso(now())
  return idempotentWrite(request, reply, db.write, async (tx: Queryable) => {
    const task = await createTask(tx, queue, wanted, authorOf(request), at)
    const headers = { location: statusPath(task), 'retry-after': '1' }
    return { status: 202, headers, body: taskView(task) }
  })
}

function listRoutes(app: App, options: ReportsOptions): void {
  const querystring = TaskListQuery
  const tasks = about('listReports', 'List your reports', { querystring, response: { 200: Type.Array(TaskView) } })
  app.get('/api/reports', { schema: tasks, config: reading }, async (request, reply) => {
    const path = `${app.prefix}/api/reports`
    const isOfAll = request.query.owner === 'all'
    if (isOfAll) requireScope(request, 'admin', 'The list of all reports')
    const caller = callerOf(request)
    const { page, link } = await listTasks(options, caller, request.query, path, requesterOf(request, reply))
    addLink(reply, link)
    return isOfAll ? page.map((task) => listedTask(task, isPrivate(options, task, caller))) : page.map(taskView)
  })
  const types = about('listReportTypes', 'List the report types', { response: { 200: Type.Array(ReportType) } })
  const offered = options.kinds.map((kind) => ({
    ...{ reportType: kind.name, title: kind.title ?? kind.name, ...(kind.scope && { scope: kind.scope }) },
    formats: [...formats.keys()],
    columns: kind.columns.map(({ name, type }) => ({ name, type })),
    parameters: parametersSchema(kind),
  }))
  app.get('/api/report-types', { schema: types, config: { ...reading, fields: false } }, async () => offered)
}

function readRoutes(app: App, options: ReportsOptions): void {
  const common = { params: TaskParams, querystring: TaskQuery, response: { 200: TaskView } }
  const handler = async (request: FastifyRequest, reply: FastifyReply) => {
    const read = () => ownTask(options, request)
    const task = await waitForChange(await read(), read, request, reply, options.watch)
    if (!isFinished(task)) reply.header('retry-after', String(pollSeconds(task, options.now())))
    return taskView(task)
  }
  const schema = about('readReport', 'Read a report task', common)
  const config = { ...reading, waits: true, headers: ['Retry-After'] } as const
  app.get('/api/reports/:taskId', { schema, config }, handler)
  const status = about('readReportStatus', 'Read the status of a report task', common)
  app.get('/api/reports/:taskId/status', { schema: status, config }, handler)
}

function endRoutes(app: App, options: ReportsOptions): void {
  const schema = about('cancelReport', 'Cancel a report', { params: TaskParams, response: { 200: TaskView } })
  const config = { ...writing, problems: ['PRECONDITION_FAILED', 'TASK_ALREADY_FINISHED'] } as const
  app.post('/api/reports/:taskId/cancel', { schema, config }, async (request, reply) => {
    const task = await ownTask(options, request)
    const precondition = preconditionOf(request, false)
    return idempotentWrite(request, reply, options.db.write, async (tx: Queryable) => ({
      ...{ status: 200, headers: {} },
      body: taskView(await cancel(options, tx, task, { precondition, trace: request.trace })),
    }))
  })
  const deletion = about('deleteReport', 'Delete a report', { params: TaskParams, response: { 204: {} } })
  app.delete('/api/reports/:taskId', { schema: deletion, config: writing }, async (request, reply) => {
    const how = { precondition: preconditionOf(request, false), trace: request.trace }
    await deleteTask(options, await ownTask(options, request), how)
    return reply.code(204).send()
  })
}
