import type { Static } from 'typebox'
import type { Caller } from '../http/policies/authenticate.ts'
import type { Revised } from '../http/policies/conditional.ts'
import type { Queue } from '../queue/queue.ts'
import type { Database, Queryable } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import { firstRevision } from '../storage/rows/revision.ts'
import type { Task } from '../storage/tables/tables.ts'
import { nextPosition } from './generate/fair-queue.ts'
import type { ReportQuery } from './report-types.ts'
import type { TaskView } from './schemas.ts'

/** What a client asks for, and under which prefix of the API. */
export interface NewTask {
  id: string
  reportType: string
  format: string
  parameters?: ReportQuery
  webhookUrl: string | null
  versionPrefix: string
  retryOf?: string
}

/**
 * Adds a pending task and its job; both exist if and only if the transaction commits. Throws RATE_LIMIT_EXCEEDED when
 * the client has as many tasks waiting as it may have.
 */
export async function createTask(tx: Queryable, queue: Queue, task: NewTask, owner: Caller, at: string): Promise<Task> {
  const { clientId, subject, scopes } = owner
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
  await queue.enqueue(tx, 'report.generate', { taskId: task.id }, { place: { group: clientId, turn } })
  return created
}

/** Where tasks are kept, and for how long after their end. */
export interface TaskStore {
  db: Database
  now: () => number
  taskSeconds: number
}

/** Tasks that ended at this instant or before are over: they exist no longer, whether or not a sweep has removed them. */
export const lastEndOver = ({ now, taskSeconds }: Omit<TaskStore, 'db'>): string => iso(now() - taskSeconds * 1_000)

const idForm = /^tsk_[A-Za-z0-9_-]{22}$/

/** A task of the caller, or any task for scope `admin`; undefined for everybody else as for a missing one. */
export async function findTask(store: TaskStore, id: string, caller: Caller): Promise<Task | undefined> {
  if (!idForm.test(id)) return undefined
  const task = await readTask(store, id)
  return task && maySee(task, caller) ? task : undefined
}

/** A task of any owner; undefined when there is none or its time is over. */
export async function readTask(store: TaskStore, id: string): Promise<Task | undefined> {
  const task = await store.db.read.selectFrom('tasks').selectAll().where('id', '=', id).executeTakeFirst()
  const isOver = task !== undefined && task.completedAt !== null && task.completedAt <= lastEndOver(store)
  return isOver ? undefined : task
}

const maySee = ({ ownerClient, ownerSubject }: Task, { clientId, subject, scopes }: Caller): boolean =>
  scopes.has('admin') || (ownerClient === clientId && ownerSubject === subject)

/** The states of those of the tasks that exist. */
export const taskStates = (db: Database) => async (ids: string[]) => {
  const rows = await db.read.selectFrom('tasks').select(['id', 'revision', 'status']).where('id', 'in', ids).execute()
  return new Map(rows.map((row) => [row.id, { revision: row.revision, isFinished: isFinished(row) }]))
}

export const isFinished = ({ status }: Pick<Task, 'status'>): boolean => status === 'completed' || status === 'failed'

const maxPollSeconds = 15

/** How long a client should wait before it looks again, in seconds: 1 for a new task, 15 for one a minute old. */
export function pollSeconds({ createdAt }: Task, nowMs: number): number {
  const ageSeconds = (nowMs - Date.parse(createdAt)) / 1_000
  return Math.min(Math.max(Math.ceil(ageSeconds / 4), 1), maxPollSeconds)
}

const pathOf = ({ versionPrefix, id }: Task, part = '') => `${versionPrefix}/api/reports/${id}${part}`

/** Where the status of a task is, and where its result. */
export const statusPath = (task: Task): string => pathOf(task, '/status')
const resultPath = (task: Task): string => pathOf(task, '/download')

/** What an event about a finished task tells: the contract's three fields and nothing else. */
export const outcomeOf = (task: Task) => ({
  taskId: task.id,
  status: task.status,
  ...(task.status === 'completed' && { resultUrl: resultPath(task) }),
})

/** A task as its owner sees it: absent values left out, with what its validators are made of. */
export function taskView(task: Task): Static<typeof TaskView> & Revised {
  const { reportType, format, retryOf, progress, createdAt, startedAt, completedAt, expiresAt, attempts } = task
  const { errorCode, errorMessage, rowCount, sizeBytes, revision, sharesSecond, updatedAt } = task
  const times = { createdAt, startedAt, completedAt, expiresAt }
  const view = {
    ...outcomeOf(task),
    ...{ reportType, format, parameters: task.parameters && askedOf(task), retryOf },
    ...{ progress, ...times, attempts, rowCount, sizeBytes },
    error: errorCode && { errorCode, message: errorMessage },
    _links: links(task),
    ...{ revision, sharesSecond, updatedAt },
  }
  return Object.fromEntries(Object.entries(view).filter(([, value]) => value !== null)) as never
}

/** The parameters that a task was asked for with. */
export const askedOf = ({ parameters }: Pick<Task, 'parameters'>): ReportQuery =>
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
