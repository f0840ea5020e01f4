import { sql } from 'kysely'
import type { Database } from '../storage/database.ts'
import { maxCounted, type QueueName, type WaitingJobs } from './queue.ts'

/**
 * Returns the number of waiting jobs of a queue, at most `maxCounted`, and when the oldest of them was due. Reads the
 * indexes that jobs are claimed from. On PostgreSQL, rejects if no process has served the database yet, because the
 * tables of the queue do not exist then.
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
