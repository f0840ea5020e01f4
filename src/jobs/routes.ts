import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { auditRecorder } from '../audit/chain.ts'
import { addLink } from '../http/headers/vary.ts'
import { Fields, linkHeader } from '../http/pagination.ts'
import { partialSchema } from '../http/partial-schema.ts'
import { auditActor } from '../http/policies/authenticate.ts'
import { checkPostPreconditions } from '../http/policies/conditional.ts'
import { requesterOf } from '../http/requester.ts'
import { idempotentWrite } from '../idempotency/idempotent-write.ts'
import type { Database, Queryable } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { JobListQuery, JobView, jobPage, jobView } from './list.ts'
import { type ServedJobs, timingOf } from './served-jobs.ts'
import { cancelJob, jobOf, retryJob } from './states.ts'

export interface JobRoutesOptions {
  db: Database
  sealer: Sealer
  now: () => number
  /** The jobs and schedules of the definition. */
  jobs: ServedJobs
}

type Plugin = FastifyPluginAsyncTypebox<JobRoutesOptions>

const path = '/api/jobs'
const tags = ['administration']
const reads = { scope: 'admin', cache: 'private', fields: true } as const
const writes = { scope: 'admin', cache: 'none', problems: ['STATE_CONFLICT'] } as const
const params = Type.Object({
  id: Type.String({ description: 'The id of the job', examples: ['job_1jfq2v0g8kJ0f3Jw1m2V8nq7Zr4T6yA'] }),
})

/** Serves the jobs and schedules of the definition to administrators. Records retries and cancellations in the audit log. */
export const jobRoutes: Plugin = async (app, options) => {
  for (const routes of [reading, changing, listingSchedules]) await routes(app, options)
}

const reading: Plugin = async (app, { db, jobs }) => {
  const ofList = { tags, operationId: 'listJobs', summary: 'List jobs, newest first' }
  const listSchema = { ...ofList, querystring: JobListQuery, response: { 200: Type.Array(JobView) } }
  app.get(path, { config: reads, schema: listSchema }, async (request, reply) => {
    const { rows, cursors } = await jobPage(db, jobs, request.query, requesterOf(request, reply))
    addLink(reply, linkHeader(app.prefix + path, request.query, cursors))
    return rows.map((row) => jobView(jobs, row))
  })
  const ofOne = { tags, operationId: 'readJob', summary: 'Read a job', params }
  const schema = { ...ofOne, querystring: Type.Object({ fields: Fields }), response: { 200: JobView } }
  app.get(`${path}/:id`, { config: reads, schema }, async (request) =>
    jobView(jobs, await jobOf(db.read, request.params.id)),
  )
}

const changing: Plugin = async (app, { db, sealer, now, jobs }) => {
  const record = auditRecorder(sealer, now)
  const changes = [
    { verb: 'retry', operationId: 'retryJob', summary: 'Retry a job', change: retryJob, event: 'job.retried' },
    { verb: 'cancel', operationId: 'cancelJob', summary: 'Cancel a job', change: cancelJob, event: 'job.cancelled' },
  ] as const
  for (const { verb, operationId, summary, change, event } of changes) {
    const schema = { tags, operationId, summary, params, response: { 200: JobView } }
    app.post(`${path}/:id/${verb}`, { config: writes, schema }, async (request, reply) => {
      const { id } = request.params
      checkPostPreconditions(request)
      return idempotentWrite(request, reply, db.write, async (tx: Queryable) => {
        const row = await change(tx, id, now())
        await record(tx, { ...auditActor(request), event, target: id, details: { job: row.name } })
        return { status: 200, headers: {}, body: jobView(jobs, row) }
      })
    })
  }
}

const Instant = (description: string) => Type.String({ format: 'date-time', description })

const ScheduleView = partialSchema(
  Type.Object({
    name: Type.String({ description: 'The name of the schedule, and of the jobs that it adds', examples: ['chase'] }),
    cron: Type.String({
      description: 'Minute, hour, day of the month, month and day of the week',
      examples: ['0 8 * * 1-5'],
    }),
    zone: Type.String({ description: 'The time zone of the cron expression', examples: ['Europe/Berlin'] }),
    missed: Type.String({
      enum: ['once', 'skip'],
      description: 'After a time without a worker: add one job for all missed times, or none',
    }),
    nextAt: Type.Optional(Instant('When the schedule adds its next job; absent until a worker has started')),
    lastAt: Type.Optional(Instant('The time for which it added its last job')),
    lastJobId: Type.Optional(Type.String({ examples: ['job_1jfq2v0g8kJ0f3Jw1m2V8nq7Zr4T6yA'] })),
  }),
)

const listingSchedules: Plugin = async (app, { db, jobs: { schedules } }) => {
  const about = { tags, operationId: 'listSchedules', summary: 'List the schedules' }
  const querystring = Type.Object({ fields: Fields })
  const schema = { ...about, querystring, response: { 200: Type.Array(ScheduleView) } }
  app.get('/api/schedules', { config: reads, schema }, async () => {
    const rows = schedules.length > 0 ? await db.read.selectFrom('jobSchedules').selectAll().execute() : []
    const states = new Map(rows.map((row) => [`${row.name} ${row.timing}`, row]))
    return schedules.map((schedule) => {
      const { nextAt, lastAt, lastJobId } = states.get(`${schedule.name} ${timingOf(schedule)}`) ?? {}
      const present = Object.entries({ nextAt, lastAt, lastJobId }).filter(([, value]) => value != null)
      return { ...schedule, ...Object.fromEntries(present) }
    })
  })
}
