import type { EventEmitter } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Database } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import type { StartedWork } from '../worker.ts'

/** The background work of a service whose clock the test moves. */
export interface Background {
  /** Runs everything that is due now; resolves once nothing is left to do. */
  settle: () => Promise<void>
  /** Returns when the next work will be due, in ms since the epoch; null if there is none. */
  nextDue: () => Promise<number | null>
}

interface BackgroundOptions extends StartedWork {
  db: Database
  now: () => number
  /** The event `wake` makes the queue look for due jobs. */
  wakes: EventEmitter
}

const pollMs = 2

export function background({ db, now, wakes, deliveries, jobs }: BackgroundOptions): Background {
  const isIdle = async () => {
    const busy = db.read.selectFrom('jobs').select('id').limit(1)
    const unfinished = busy.where((row) => row.or([row('leaseUntil', 'is not', null), row('runAt', '<=', iso(now()))]))
    return (await unfinished.executeTakeFirst()) === undefined
  }
  const settle = async () => {
    for (;;) {
      await jobs.check()
      wakes.emit('wake')
      if (await isIdle()) {
        await deliveries.settled()
        await jobs.check()
        if (await isIdle()) return
      }
      await wait(pollMs)
    }
  }
  const nextDue = async () => {
    const { rows } = await sql<{ at: string | null }>`
      select min(at) as at from (
        select run_at as at from jobs where lease_until is null
        union all select due_at from declared_jobs where status = 'waiting' and queued = 0
        union all select next_at from job_schedules
        union all select due_at from delivery_owners
      ) as times where at > ${iso(now())}`.execute(db.read)
    return rows[0]?.at == null ? null : Date.parse(rows[0].at)
  }
  return { settle, nextDue }
}
