import { EventEmitter } from 'node:events'
import { sql } from 'kysely'
import type { Database, Queryable } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import { limitExpression } from '../storage/rows/page-query.ts'
import { type JobStore, type Lease, leaseSeconds, type QueueName, type QueuePosition, queues } from './queue.ts'

/** Lets the threads of this process that use the same database wake each other. */
export interface SharedWakes {
  wake: () => void
  /** Calls `run` after each wake; returns a function that removes the callback. */
  onWake: (run: () => void) => () => void
}

/**
 * Opens the queue in the embedded database: one table, a lease for each claimed job, and `fence` as the fencing token.
 */
export function embeddedStore(db: Database, now: () => number, shared: SharedWakes | null = null): JobStore {
  const wakes = new EventEmitter()
  const insert = db.prepare(db.read.insertInto('jobs').values(jobRow('', '', '', undefined)))
  const wakeSoon = (queue: QueueName) => setImmediate(() => (shared ? shared.wake() : wakes.emit('wake', queue)))
  const stopWaking = shared?.onWake(() => {
    for (const queue of Object.keys(queues)) wakes.emit('wake', queue)
  })
  return {
    idlePollMs: 5_000,
    onWake: (wake) => void wakes.on('wake', wake),
    add: async (tx, queue, payload, runAt, position) => {
      await insert.in(tx, Object.values(jobRow(queue, JSON.stringify(payload), iso(runAt), position)))
      // The transaction commits before the next event-loop tick. If the commit fails, the woken worker finds nothing.
      wakeSoon(queue)
    },
    claim: (queue, limit) => claim(db, queue, limit, now()),
    extend: async (lease) => {
      const leaseUntil = iso(now() + leaseSeconds * 1_000)
      const changed = await db.write((tx) => held(tx.updateTable('jobs').set({ leaseUntil }), lease).executeTakeFirst())
      return changed.numUpdatedRows === 1n
    },
    finish: (tx, leases) => finish(tx, db, leases),
    release: async (lease, delayMs) => {
      const runAt = iso(now() + delayMs)
      await db.write((tx) => held(tx.updateTable('jobs').set({ leaseUntil: null, runAt }), lease).execute())
      wakeSoon(lease.queue)
    },
    nextDue: (queue) => nextDue(db, queue),
    close: async () => {
      stopWaking?.()
      wakes.removeAllListeners()
    },
  }
}

const jobRow = (queue: string, payload: string, runAt: string, position: QueuePosition | undefined) => ({
  queue,
  payload,
  runAt,
  groupId: position?.group ?? null,
  turn: position?.turn ?? 0,
})

/** Releases every claimed job. The increased fence prevents the earlier claims from finishing the jobs. */
export async function freeJobs(db: Database): Promise<void> {
  await db.write((tx) =>
    tx
      .updateTable('jobs')
      .set((row) => ({ leaseUntil: null, fence: row('fence', '+', 1) }))
      .where('leaseUntil', 'is not', null)
      .execute(),
  )
}

/** Adds the condition that this lease is still held. */
function held<T>(query: T, lease: { id: string; fence: number }): T {
  type Filter = { where: (column: string, op: string, value: unknown) => Filter }
  return (query as Filter)
    .where('id', '=', Number(lease.id))
    .where('fence', '=', lease.fence)
    .where('leaseUntil', 'is not', null) as T
}

async function finish(tx: Queryable, { engine }: Database, leases: readonly Lease[]): Promise<boolean> {
  const rows = engine.jsonRows(JSON.stringify(leases.map(({ id, fence }) => [Number(id), fence])))
  const { numAffectedRows } = await sql`
    delete from jobs where (id, fence) in (select value ->> 0, value ->> 1 from ${rows}) and lease_until is not null
  `.execute(tx)
  return numAffectedRows === BigInt(leases.length)
}

async function claim(db: Database, queue: QueueName, limit: number, nowMs: number) {
  const instant = iso(nowMs)
  const rows = await db.write(async (tx) => {
    await tx
      .updateTable('jobs')
      .set({ leaseUntil: null })
      .where('queue', '=', queue)
      .where('leaseUntil', '<=', instant)
      .execute()
    return tx
      .updateTable('jobs')
      .set((row) => ({
        leaseUntil: iso(nowMs + leaseSeconds * 1_000),
        fence: row('fence', '+', 1),
        attempts: row('attempts', '+', 1),
      }))
      .where('id', 'in', due(tx, queue, instant, limit))
      .returning(['id', 'fence', 'payload', 'attempts'])
      .execute()
  })
  return rows.map(({ id, fence, payload, attempts }) => ({
    id: String(id),
    queue,
    fence,
    payload: JSON.parse(payload),
    attempt: attempts,
  }))
}

/** Selects the jobs to claim: longest overdue first or, in queues with groups, by `turn` within each group's limit. */
function due(tx: Queryable, queue: QueueName, instant: string, limit: number) {
  const waiting = tx
    .selectFrom('jobs')
    .where('queue', '=', queue)
    .where('leaseUntil', 'is', null)
    .where('runAt', '<=', instant)
  const { perGroup } = queues[queue]
  if (perGroup === null) return waiting.select('id').orderBy('runAt').orderBy('id').limit(limitExpression(limit))
  const running = sql`(select count(*) from jobs as r where r.queue = jobs.queue and r.group_id = jobs.group_id
    and r.lease_until is not null)`
  const position = sql<number>`row_number() over (partition by group_id order by turn, run_at, id) + ${running}`
  const ranked = waiting.select(['id', 'turn', 'runAt', 'groupId']).select(position.as('position'))
  return tx
    .selectFrom(ranked.as('ranked'))
    .select('id')
    .where((row) => row.or([row('groupId', 'is', null), row('position', '<=', perGroup)]))
    .orderBy('turn')
    .orderBy('runAt')
    .orderBy('id')
    .limit(limitExpression(limit))
}

async function nextDue(db: Database, queue: QueueName): Promise<number | null> {
  const waiting = await db.read
    .selectFrom('jobs')
    .select((row) => row.fn.min('runAt').as('at'))
    .where('queue', '=', queue)
    .where('leaseUntil', 'is', null)
    .executeTakeFirst()
  const leased = await db.read
    .selectFrom('jobs')
    .select((row) => row.fn.min('leaseUntil').as('at'))
    .where('queue', '=', queue)
    .where('leaseUntil', 'is not', null)
    .executeTakeFirst()
  const dues = [waiting?.at, leased?.at].filter((at) => at != null).map((at) => Date.parse(at))
  return dues.length > 0 ? Math.min(...dues) : null
}
