import { type Static, Type } from 'typebox'
import { CursorText, Fields, keysetPage, PageLimit } from '../http/pagination.ts'
import { partialSchema } from '../http/partial-schema.ts'
import type { Database } from '../storage/database.ts'
import type { ScanRequester } from '../storage/scans/scan.ts'
import type { ServedJobs } from './served-jobs.ts'
import type { JobRow } from './states.ts'

const Instant = (description: string) => Type.String({ format: 'date-time', description })
const id = 'job_1jfq2v0g8kJ0f3Jw1m2V8nq7Zr4T6yA'

export const storedStatuses = ['waiting', 'running', 'completed', 'failed', 'cancelled'] as const
export type StoredStatus = (typeof storedStatuses)[number]
const jobStatuses = [...storedStatuses, 'unknown'] as const

export const JobView = partialSchema(
  Type.Object({
    id: Type.String({ examples: [id] }),
    name: Type.String({
      description: 'The name of the job or schedule in the definition',
      examples: ['invoice.remind'],
    }),
    status: Type.String({
      enum: [...jobStatuses],
      description: '`unknown`: the job is waiting, but the definition no longer has a job of this name',
    }),
    key: Type.Optional(
      Type.String({ description: 'At most one job with this name and key waits', examples: ['chase-7'] }),
    ),
    attempts: Type.Integer({ minimum: 0, description: 'How many times the job was started', examples: [2] }),
    failures: Type.Integer({ minimum: 0, description: 'How many of these attempts failed', examples: [1] }),
    error: Type.Optional(
      Type.String({
        description: 'The error of the last failed attempt, at most 2,000 characters',
        examples: ['Error: the mail service answered 503'],
      }),
    ),
    scheduledFor: Type.Optional(Instant('The scheduled time for which the job was added')),
    createdAt: Instant('When the job was added'),
    dueAt: Type.Optional(Instant('When the job may start, while it waits')),
    startedAt: Type.Optional(Instant('When the last attempt started')),
    endedAt: Type.Optional(Instant('When the job was completed, failed or was cancelled')),
  }),
)

/** Returns the representation of a job, without its input, which may contain data from rows. */
export function jobView({ jobs }: ServedJobs, row: JobRow): Static<typeof JobView> {
  const { id, name, key, status, attempts, failures, error, scheduledFor, createdAt, dueAt, startedAt, endedAt } = row
  const shown = status === 'waiting' && !jobs.has(name) ? 'unknown' : status
  const optional = { key, error, scheduledFor, startedAt, endedAt, dueAt: status === 'waiting' ? dueAt : null }
  const present = Object.entries(optional).filter(([, value]) => value !== null)
  return { id, name, status: shown, attempts, failures, createdAt, ...Object.fromEntries(present) }
}

export const JobListQuery = Type.Object({
  ...{ limit: PageLimit, cursor: CursorText, fields: Fields },
  name: Type.Optional(
    Type.String({ maxLength: 100, description: 'Only jobs of this name', examples: ['invoice.remind'] }),
  ),
  status: Type.Optional(Type.String({ enum: [...jobStatuses], description: 'Only jobs with this status' })),
})

/** Reads one page of the jobs, newest first. Runs as a scan unless an index matches the filters. */
export function jobPage(
  { read, scan, engine }: Database,
  { jobs }: ServedJobs,
  query: Static<typeof JobListQuery>,
  requester: ScanRequester,
) {
  const { name, status } = query
  const known = [...jobs.keys()]
  const isUnknown = status === 'unknown'
  const stored = isUnknown ? 'waiting' : (status as JobRow['status'] | undefined)
  // No index covers the filters `waiting` and `unknown`, which also compare the name with the definition's jobs.
  const isBounded = (name === undefined || status === undefined) && stored !== 'waiting'
  return keysetPage<JobRow>(query, 1, {
    of: ['jobs', name, status],
    keyOf: ({ id }) => [id],
    rowsAfter: (after, backwards, count) => {
      const [order, beyond] = backwards ? (['asc', '>'] as const) : (['desc', '<'] as const)
      const page = read
        .selectFrom('declaredJobs')
        .selectAll()
        .$if(name !== undefined, (rows) => rows.where('name', '=', name as string))
        .$if(stored !== undefined, (rows) => rows.where('status', '=', stored as JobRow['status']))
        .$if(isUnknown && known.length > 0, (rows) => rows.where('name', 'not in', known))
        .$if(status === 'waiting', (rows) => rows.where('name', 'in', known.length > 0 ? known : ['']))
        .$if(after !== null, (rows) => rows.where('id', beyond, String(after?.[0])))
        .orderBy('id', order)
        .limit(count)
      return isBounded ? page.execute() : scan(page.where(engine.interruptible('declared_jobs')), requester)
    },
  })
}

/** Returns the newest jobs without their input, including jobs that are no longer in the definition. */
export const listedJobs = (read: Database['read'], filter: { name?: string; status?: StoredStatus; limit: number }) =>
  read
    .selectFrom('declaredJobs')
    .select(['id', 'name', 'status', 'key', 'attempts', 'failures', 'error', 'scheduledFor'])
    .select(['createdAt', 'dueAt', 'startedAt', 'endedAt'])
    .$if(filter.name !== undefined, (rows) => rows.where('name', '=', filter.name as string))
    .$if(filter.status !== undefined, (rows) => rows.where('status', '=', filter.status as StoredStatus))
    .orderBy('id', 'desc')
    .limit(filter.limit)
    .execute()
