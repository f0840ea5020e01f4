import type { Static } from 'typebox'
import type { Caller } from '../http/policies/authenticate.ts'
import type { Versioned } from '../http/policies/conditional.ts'
import type { Queue } from '../queue/queue.ts'
import type { Database, Queryable } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import { firstRevision } from '../storage/rows/revision.ts'
import type { Task } from '../storage/tables/tables.ts'
import { nextPosition } from './generate/fair-queue.ts'
import type { ReportQuery } from './report-types.ts'
import type { TaskView } from './schemas.ts'

/** A requested report, with the API prefix used in the request. */
export interface NewTask {
  id: string
  reportType: string
  format: string
  parameters?: ReportQuery
  webhookUrl: string | null
  versionPrefix: string
  retryOf?: string
  /** The requester's scopes, if access rules apply to the report. */
  scopes?: string
}

/** Adds a pending task and its job in the caller's transaction. Throws the same errors as `nextPosition`. */
export async function createTask(tx: Queryable, queue: Queue, task: NewTask, owner: Caller, at: string): Promise<Task> {
  const { clientId, subject, scopes, trace } = owner
  const turn = await nextPosition(tx, clientId)
  const created = await tx
    .insertInto('tasks')
    .values({
      ...task,
      ...{ ownerClient: clientId, ownerSubject: subject, asAdmin: scopes.has('admin') ? 1 : 0, turn },
      parameters: task.parameters ? JSON.stringify(task.parameters) : null,
      ...{ status: 'pending', progress: 0, attempts: 0, ...firstRevision(at) },
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  await queue.enqueue(tx, 'report.generate', { taskId: task.id }, { trace, position: { group: clientId, turn } })
  return created
}

/** Task storage, and how long tasks are retained after they end. */
export interface TaskStore {
  db: Database
  now: () => number
  taskSeconds: number
}

/**
 * Returns the expiry limit: tasks that ended at this instant or earlier count as deleted, even before a sweep removes
 * them.
 */
export const lastEndOver = ({ now, taskSeconds }: Omit<TaskStore, 'db'>): string => iso(now() - taskSeconds * 1_000)

const idForm = /^tsk_[A-Za-z0-9_-]{22}$/

/** Returns the task if the caller owns it, or has the scope `admin` and no access rules apply; otherwise undefined. */
export async function findTask(store: TaskStore, id: string, caller: Caller): Promise<Task | undefined> {
  if (!idForm.test(id)) return undefined
  const task = await readTask(store, id)
  return task && maySee(task, caller) ? task : undefined
}

/** Returns any owner's task; undefined if it does not exist or has expired. */
export async function readTask(store: TaskStore, id: string): Promise<Task | undefined> {
  const task = await store.db.read.selectFrom('tasks').selectAll().where('id', '=', id).executeTakeFirst()
  const isOver = task !== undefined && task.completedAt !== null && task.completedAt <= lastEndOver(store)
  return isOver ? undefined : task
}

/** Returns whether the caller owns a task, or has the scope `admin` and no access rules apply. */
export const maySee = (
  { ownerClient, ownerSubject, scopes }: Task,
  { clientId, subject, ...caller }: Caller,
): boolean => (scopes === null && caller.scopes.has('admin')) || (ownerClient === clientId && ownerSubject === subject)

/** Returns the states of the tasks with these ids, omitting tasks that do not exist. */
export const taskStates = (db: Database) => async (ids: string[]) => {
  const rows = await db.read.selectFrom('tasks').select(['id', 'revision', 'status']).where('id', 'in', ids).execute()
  return new Map(rows.map((row) => [row.id, { revision: row.revision, isFinished: isFinished(row) }]))
}

export const isFinished = ({ status }: Pick<Task, 'status'>): boolean => status === 'completed' || status === 'failed'

const maxPollSeconds = 15

/**
 * Returns the recommended polling interval in seconds: 1 for a new task, rising to 15 for a task that is a minute old.
 */
export function pollSeconds({ createdAt }: Task, nowMs: number): number {
  const ageSeconds = (nowMs - Date.parse(createdAt)) / 1_000
  return Math.min(Math.max(Math.ceil(ageSeconds / 4), 1), maxPollSeconds)
}

const pathOf = ({ versionPrefix, id }: Task, part = '') => `${versionPrefix}/api/reports/${id}${part}`

export const statusPath = (task: Task): string => pathOf(task, '/status')
const resultPath = (task: Task): string => pathOf(task, '/download')

/** Returns the payload of the event for a finished task. The API contract allows no other fields. */
export const taskOutcome = (task: Task) => ({
  taskId: task.id,
  status: task.status,
  ...(task.status === 'completed' && { resultUrl: resultPath(task) }),
})

/** Returns a task's representation without null values, together with the columns used to compute its validators. */
export function taskView(task: Task): Static<typeof TaskView> & Versioned {
  const { reportType, format, retryOf, progress, createdAt, startedAt, completedAt, expiresAt, attempts } = task
  const { errorCode, errorMessage, rowCount, sizeBytes, revision, sharesSecond, updatedAt } = task
  const times = { createdAt, startedAt, completedAt, expiresAt }
  const view = {
    ...taskOutcome(task),
    ...{ reportType, format, parameters: task.parameters && queryOf(task), retryOf },
    ...{ progress, ...times, attempts, rowCount, sizeBytes },
    error: errorCode && { errorCode, message: errorMessage },
    _links: links(task),
    ...{ revision, sharesSecond, updatedAt },
  }
  return Object.fromEntries(Object.entries(view).filter(([, value]) => value !== null)) as never
}

/**
 * Returns the representation of any owner's task for an administrator. If the task is private, omits the parameters,
 * the links and the size of the result.
 */
export function listedTask(task: Task, isPrivate: boolean): ReturnType<typeof taskView> {
  const { ownerClient, ownerSubject } = task
  const view = { ...taskView(task), ownerClient, ownerSubject }
  if (!isPrivate) return view
  const { parameters: _, resultUrl: __, rowCount: ___, sizeBytes: ____, ...state } = view
  return { ...state, _links: {} }
}

/** Returns the parameters of the request that created the task. */
export const queryOf = ({ parameters }: Pick<Task, 'parameters'>): ReportQuery =>
  parameters ? JSON.parse(parameters) : {}

const links = (task: Task) => ({
  self: { href: pathOf(task) },
  status: { href: statusPath(task) },
  ...(isFinished(task) ? finishedLinks(task) : unfinishedLinks(task)),
})

const unfinishedLinks = (task: Task) => ({
  events: { href: pathOf(task, '/events') },
  cancel: { href: pathOf(task, '/cancel'), method: 'POST' },
})

const finishedLinks = (task: Task) => ({
  ...(task.status === 'completed' && { download: { href: resultPath(task) } }),
  retry: { href: pathOf(task, '/retry'), method: 'POST' },
  delete: { href: pathOf(task), method: 'DELETE' },
})
