import { hostname } from 'node:os'
import { sql } from 'kysely'
import { databaseTime, type SharedClock } from '../storage/clock.ts'
import type { Database, Queryable } from '../storage/database.ts'
import { iso, newId, type RandomBytes } from '../storage/ids.ts'
import { checkAgreement } from './compare.ts'
import { liveSince } from './list.ts'
import type { NodeFacts } from './node.ts'

const heartbeatMs = 10_000
/** How long the row of a lost node is kept. */
const keptMs = 86_400_000

/** Deletes the rows of nodes without a heartbeat for a day. Returns the number of deleted rows. */
export async function expireNodes(db: Database, now: () => number): Promise<number> {
  const before = iso(now() - keptMs)
  const { numDeletedRows } = await db.write((tx) =>
    tx.deleteFrom('nodes').where('heartbeatAt', '<', before).executeTakeFirstOrThrow(),
  )
  return Number(numDeletedRows)
}

/**
 * Compares a process that is about to start with the live nodes, before it migrates the database. Throws `ConfigError`
 * if they do not agree. Does nothing on SQLite, where only one process can serve the database, or if the table `nodes`
 * does not exist.
 */
export async function checkBeforeMigration(db: Database, facts: () => NodeFacts): Promise<void> {
  if (db.engine.name === 'sqlite') return
  if ((await db.engine.columnsOf('nodes').execute(db.read)).rows.length === 0) return
  checkAgreement(facts(), await liveNodes(db.read, await databaseTime(db)()))
}

/**
 * Returns the live nodes, except processes on this machine that have been killed. A row with the host name and process
 * id of this process is from an earlier process, because a restarted container reuses both.
 */
async function liveNodes(db: Queryable, nowMs: number): Promise<NodeFacts[]> {
  const rows = await db.selectFrom('nodes').selectAll().where('heartbeatAt', '>=', liveSince(nowMs)).execute()
  return rows.filter((row) => row.hostname !== hostname() || (row.pid !== process.pid && isRunning(row.pid)))
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // EPERM: the process exists, but belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

export interface RegisterOptions {
  db: Database
  clock: Pick<SharedClock, 'now' | 'aheadMs'>
  facts: NodeFacts
  random: RandomBytes
  /** Called with the allowed differences from other nodes, if there are any. */
  onDiffering: (differences: readonly string[]) => void
  onError: (error: unknown) => void
}

/** The row of this process in the table `nodes`. */
export interface RegisteredNode {
  id: string
  /** Stops the heartbeat and deletes the row. */
  leave: () => Promise<void>
}

/**
 * Registers this process and updates its row every ten seconds. Throws `ConfigError` and adds no row if the process
 * does not agree with a live node.
 */
export async function registerNode(options: RegisterOptions): Promise<RegisteredNode> {
  const { db, clock, facts, random, onDiffering } = options
  const id = newId('nod', random)
  const startedAt = iso(clock.now())
  const beat = (tx: Queryable) => {
    const state = { clockAheadMs: Math.round(clock.aheadMs()), heartbeatAt: iso(clock.now()) }
    return tx
      .insertInto('nodes')
      .values({ id, ...facts, startedAt, ...state })
      .onConflict((conflict) => conflict.column('id').doUpdateSet(state))
      .execute()
  }
  const differences = await db.write(async (tx) => {
    if (db.engine.name === 'sqlite') await tx.deleteFrom('nodes').execute()
    // The lock makes sure that two nodes that start at the same moment see each other.
    else await sql`lock table nodes in share row exclusive mode`.execute(tx)
    const others = await liveNodes(tx, clock.now())
    await beat(tx)
    return checkAgreement(facts, others)
  })
  if (differences.length > 0) onDiffering(differences)
  const stop = beating(() => db.write(beat), options.onError)
  const leave = async () => {
    await stop()
    await db.write((tx) => tx.deleteFrom('nodes').where('id', '=', id).execute())
  }
  return { id, leave: () => leave().catch(options.onError) }
}

/**
 * Sends heartbeats, one at a time, until the returned function is called. Reports only the first of consecutive
 * failures.
 */
function beating(beat: () => Promise<unknown>, onError: (error: unknown) => void): () => Promise<void> {
  let current: Promise<void> | undefined
  let isFailing = false
  const run = async () => {
    try {
      await beat()
      isFailing = false
    } catch (error) {
      if (!isFailing) onError(error)
      isFailing = true
    }
    current = undefined
  }
  const timer = setInterval(() => {
    current ??= run()
  }, heartbeatMs)
  return async () => {
    clearInterval(timer)
    await current
  }
}
