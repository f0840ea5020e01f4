import type { Selectable } from 'kysely'
import type { Database } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import type { JobSchedulesTable } from '../storage/tables/tasks.ts'
import { nextTime } from './cron.ts'
import { addJob, type JobAdderOptions } from './enqueue.ts'
import { type ServedSchedule, timingOf } from './served-jobs.ts'

type ScheduleRow = Selectable<JobSchedulesTable>

export type TickOptions = Omit<JobAdderOptions, 'jobs'> & { db: Database; schedules: readonly ServedSchedule[] }

/** A scheduled time counts as missed if no worker has added its job within this many ms. */
const missedMs = 60_000

/** Plans new and changed schedules, and adds the jobs that are due: one per scheduled time, even with several nodes. */
export async function tickSchedules(options: TickOptions): Promise<void> {
  const { db, schedules, now } = options
  if (schedules.length === 0) return
  const rows = new Map((await db.read.selectFrom('jobSchedules').selectAll().execute()).map((row) => [row.name, row]))
  for (const schedule of schedules) {
    const row = rows.get(schedule.name)
    if (row === undefined || row.timing !== timingOf(schedule)) await plan(db, schedule, row, now())
    else if (Date.parse(row.nextAt) <= now()) await tick(options, schedule, row)
  }
}

/** Stores the next time of a new or changed schedule. No jobs are added for earlier times. */
async function plan(db: Database, schedule: ServedSchedule, row: ScheduleRow | undefined, nowMs: number) {
  const { name } = schedule
  const timing = timingOf(schedule)
  // Nodes with the old and the new timing may run together and replace each other's plan. A changed schedule is planned
  // from slightly before now, so that a time that is just due is not lost.
  const fromMs = row === undefined ? nowMs : Math.max(nowMs - missedMs, Date.parse(row.lastAt ?? iso(0)))
  const nextAt = iso(nextTime(schedule, fromMs))
  await db.write(async (tx) => {
    const added = tx.insertInto('jobSchedules').values({ name, timing, nextAt })
    if (row === undefined) return void (await added.onConflict((conflict) => conflict.doNothing()).execute())
    const changed = tx.updateTable('jobSchedules').set({ timing, nextAt })
    await changed.where('name', '=', name).where('timing', '=', row.timing).execute()
  })
}

/**
 * Stores the next time of a schedule, and adds a job for the time that is due unless that time is skipped. Does nothing
 * if another node has already done so.
 */
async function tick(options: TickOptions, schedule: ServedSchedule, row: ScheduleRow): Promise<void> {
  const { db, now } = options
  const { name } = schedule
  const nowMs = now()
  const scheduledFor = timeToRun(schedule, row, nowMs)
  const nextAt = iso(nextTime(schedule, nowMs))
  await db.write(async (tx) => {
    const claimed = await tx
      .updateTable('jobSchedules')
      .set({ nextAt, ...(scheduledFor !== null && { lastAt: scheduledFor }) })
      .where('name', '=', name)
      .where('timing', '=', row.timing)
      .where('nextAt', '=', row.nextAt)
      .executeTakeFirst()
    if (claimed.numUpdatedRows !== 1n || scheduledFor === null) return
    const lastJobId = await addJob(options, tx, { name, input: 'null', dueMs: nowMs, scheduledFor })
    await tx.updateTable('jobSchedules').set({ lastJobId }).where('name', '=', name).execute()
  })
}

/** Returns the time for which to add a job; null if all due times were missed and the schedule skips missed times. */
function timeToRun(schedule: ServedSchedule, { nextAt }: ScheduleRow, nowMs: number): string | null {
  if (schedule.missed === 'once' || nowMs - Date.parse(nextAt) <= missedMs) return nextAt
  const recentMs = nextTime(schedule, nowMs - missedMs)
  return recentMs <= nowMs ? iso(recentMs) : null
}
