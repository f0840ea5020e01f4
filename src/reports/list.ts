import { sql } from 'kysely'
import { type Static, Type } from 'typebox'
import {
  CursorText,
  decodeCursor,
  encodeCursor,
  Fields,
  linkHeader,
  listFingerprint,
  PageLimit,
  pageSizeOf,
} from '../http/pagination.ts'
import type { Caller } from '../http/policies/authenticate.ts'
import { malformedQuery } from '../http/problems/problem.ts'
import type { ScanRequester } from '../storage/scans/scan.ts'
import type { Task } from '../storage/tables/tables.ts'
import { lastEndOver, type TaskStore } from './tasks.ts'

const states = ['pending', 'in_progress', 'completed', 'failed'] as const
const name = (description: string, example: string) =>
  Type.Optional(Type.String({ maxLength: 100, description, examples: [example] }))

export const TaskListQuery = Type.Object({
  limit: PageLimit,
  cursor: CursorText,
  status: Type.Optional(Type.String({ enum: [...states], description: 'Only tasks in this state' })),
  reportType: name('Only tasks of this report type', 'activity'),
  format: name('Only tasks in this format', 'csv'),
  owner: Type.Optional(
    Type.String({
      enum: ['all'],
      description:
        "`all` also lists other owners' tasks, without what only their owners may see; needs the scope admin",
    }),
  ),
  fields: Fields,
})

type Query = Static<typeof TaskListQuery>

/**
 * Returns one page of tasks, newest first, with the page's Link header. Lists the caller's own tasks or, with
 * `owner=all`, the tasks of all owners.
 */
export async function listTasks(
  store: TaskStore,
  caller: Caller,
  query: Query,
  path: string,
  requester: ScanRequester,
) {
  const { status, reportType, format, owner } = query
  const filters = { status: status as Task['status'] | undefined, reportType, format }
  const mark = listFingerprint([caller.clientId, caller.subject, filters, ...(owner ? [owner] : [])])
  const cursor = query.cursor ? decodeCursor(query.cursor, mark, 2) : null
  if (cursor && !cursor.after.every((value) => typeof value === 'string')) throw foreign()
  const limit = pageSizeOf(query.limit)
  const backwards = cursor?.backwards ?? false
  const of = owner === 'all' ? null : caller
  const found = await tasksOf(store, of, filters, cursor?.after, backwards, limit + 1, requester)
  const more = found.length > limit
  const page = found.slice(0, limit)
  if (backwards) page.reverse()
  const encode = (task: Task | undefined, back: boolean) =>
    task && encodeCursor(mark, { after: [task.createdAt, task.id], backwards: back })
  const next = backwards || more ? encode(page.at(-1), false) : undefined
  const prev = (backwards ? more : cursor !== null) ? encode(page[0], true) : undefined
  return { page, link: linkHeader(path, query, { ...(next && { next }), ...(prev && { prev }) }) }
}

const foreign = () => malformedQuery('cursor', 'is not a valid cursor')

function tasksOf(
  store: TaskStore,
  owner: Caller | null,
  filters: Partial<Pick<Task, 'status' | 'reportType' | 'format'>>,
  after: readonly unknown[] | undefined,
  backwards: boolean,
  limit: number,
  requester: ScanRequester,
): Promise<Task[]> {
  let tasks = store.db.read.selectFrom('tasks').selectAll()
  if (owner) tasks = tasks.where('ownerClient', '=', owner.clientId).where('ownerSubject', '=', owner.subject)
  tasks = tasks.where((task) =>
    task.or([task('completedAt', 'is', null), task('completedAt', '>', lastEndOver(store))]),
  )
  for (const [field, value] of Object.entries(filters)) {
    if (value !== undefined) tasks = tasks.where(field as keyof typeof filters, '=', value)
  }
  const order = backwards ? 'asc' : 'desc'
  if (after) {
    tasks = tasks.where(sql<boolean>`(created_at, id) ${backwards ? sql`>` : sql`<`} (${after[0]}, ${after[1]})`)
  }
  const page = tasks.orderBy('createdAt', order).orderBy('id', order).limit(limit)
  // No index covers the format or excludes the expired tasks of all owners, so the query may read all tasks if few of
  // them match.
  return owner && filters.format === undefined
    ? page.execute()
    : store.db.scan(page.where(store.db.engine.interruptible('tasks')), requester)
}
