import { sql } from 'kysely'
import type { Database } from '../storage/database.ts'
import { maxCounted, type QueueName, type WaitingJobs } from './queue.ts'

/**
 * Returns the number of waiting jobs in a queue, at most `maxCounted`, and when the oldest of them became due. Uses the
 * same indexes as claims do. On PostgreSQL, rejects if no node has used the database yet, because the queue's tables do
 * not exist then.
 */
export async function waitingJobs(
  { read, engine }: Pick<Database, 'read' | 'engine'>,
  queue: QueueName,
  nowMs: number,
): Promise<WaitingJobs> {
  if (engine.name === 'sqlite') return inTable(read, queue, nowMs)
  const { rows } = await sql<{ waiting: number; due: number | null }>`
    select count(*)::int as waiting,
      (extract(epoch from min(start_after) filter (where start_after <= now())) * 1000)::float8 as due
    from (
      select start_after from pgboss.job
      where name = ${queue} and state < 'active' and not blocked limit ${sql.raw(String(maxCounted))}
    ) as jobs`.execute(read)
  const { waiting = 0, due = null } = rows[0] ?? {}
  return { waiting, dueSinceMs: due }
}

async function inTable(read: Database['read'], queue: QueueName, nowMs: number): Promise<WaitingJobs> {
  const { rows } = await sql<{ waiting: number; due: string | null }>`
    select (select count(*) from (select 1 from jobs where queue = ${queue} and lease_until is null limit ${maxCounted})) as waiting,
      (select min(run_at) from jobs where queue = ${queue} and lease_until is null) as due
  `.execute(read)
  const { waiting = 0, due = null } = rows[0] ?? {}
  const dueMs = due === null ? null : Date.parse(due)
  return { waiting, dueSinceMs: dueMs !== null && dueMs <= nowMs ? dueMs : null }
}

type Reading = Pick<Database, 'read' | 'engine'>

/** Returns whether the queue's tables exist. On PostgreSQL, the first node that uses the database creates them. */
export async function hasQueues({ read, engine }: Reading): Promise<boolean> {
  if (engine.name === 'sqlite') return true
  const { rows } = await sql<{ exists: boolean }>`select to_regclass('pgboss.job') is not null as exists`.execute(read)
  return rows[0]?.exists ?? false
}

/**
 * Returns the number of claimed jobs in a queue, and the number of waiting jobs that have been claimed before. Examines
 * at most `maxCounted` jobs of each kind.
 */
export async function claimedJobs({ read, engine }: Reading, queue: QueueName) {
  const [running, waiting] =
    engine.name === 'sqlite'
      ? [
          sql`select 1 from jobs where queue = ${queue} and lease_until is not null`,
          sql`select attempts > 0 as is_repeated from jobs where queue = ${queue} and lease_until is null`,
        ]
      : [
          sql`select 1 from pgboss.job where name = ${queue} and state = 'active'`,
          sql`select state = 'retry' as is_repeated from pgboss.job where name = ${queue} and state < 'active'`,
        ]
  const { rows } = await sql<{ running: number; repeated: number }>`
    select cast((select count(*) from (${running} limit ${sql.lit(maxCounted)}) as r) as integer) as running,
      cast((select count(*) from (${waiting} limit ${sql.lit(maxCounted)}) as w where is_repeated) as integer) as repeated
  `.execute(read)
  const { running: claimed = 0, repeated = 0 } = rows[0] ?? {}
  return { running: claimed, repeated }
}
