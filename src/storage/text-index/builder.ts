import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import type { SetTimer } from '../timer.ts'
import type { Searched } from './text-index.ts'

export interface SqliteTextIndexOptions extends Pick<Database, 'read' | 'write' | 'scan'> {
  path: string
  setTimer: SetTimer
  /** Returns a unique string. */
  newToken: () => string
  unindexed: Unindexed
  onError: (error: unknown) => void
}

/** How many unindexed rows, new and changed, searches may read; if there are more, the index is updated. */
export interface Unindexed {
  newRows: number
  changed: number
}

/** An indexing step that the thread has prepared. */
export interface IndexStep {
  /** The number (`rowid`) of the last row that the index contains. */
  indexedTo: number
  /** The number of the last row change that the index contains. */
  changedTo: number
}
export type ToIndexThread = { step: Searched & { token: string } } | 'commit'
export type FromIndexThread = { prepared: IndexStep } | 'committed' | { error: string }

export interface TextIndexBuilder {
  /** Runs steps while the index is behind; rejects if a step fails. */
  build: (searched: Searched, isBehind: () => Promise<boolean>) => Promise<void>
  /** Stops after the current step. */
  stop: () => void
}

const program = new URL(`./thread${extname(import.meta.url)}`, import.meta.url)
const resourceLimits = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 8 }

/**
 * Builds the index in a thread. That thread never writes to the database: the caller's thread does, with a few short
 * statements per step.
 */
export function textIndexBuilder({ path, write, newToken }: SqliteTextIndexOptions): TextIndexBuilder {
  let stopped = false
  return {
    build: async (searched, isBehind) => {
      await write((tx) => ensureTriggers(tx, searched, newToken()))
      const worker = new Worker(program, { workerData: { path }, resourceLimits })
      worker.unref()
      try {
        do await step(worker, searched, write, newToken())
        while (!stopped && (await isBehind()))
      } finally {
        await worker.terminate()
      }
    },
    stop: () => {
      stopped = true
    },
  }
}

/**
 * Runs one step. The step's token is stored in the database before the thread commits the step. If that commit fails,
 * the tokens differ, and the index is rebuilt.
 */
async function step(
  worker: Worker,
  { table, columns }: Searched,
  write: SqliteTextIndexOptions['write'],
  token: string,
): Promise<void> {
  const prepared = await send(worker, { step: { table, columns, token } })
  if (typeof prepared !== 'object' || !('prepared' in prepared))
    throw new Error(`A step of the text index failed: ${errorOf(prepared)}`)
  const { indexedTo, changedTo } = prepared.prepared
  await write(async (tx) => {
    await sql`update search_indexes set token = ${token}, indexed_to = ${indexedTo} where name = ${table}`.execute(tx)
    await sql`delete from search_changes where name = ${table} and change <= ${changedTo}`.execute(tx)
  })
  const committed = await send(worker, 'commit')
  if (committed !== 'committed') throw new Error(`A step of the text index failed: ${errorOf(committed)}`)
}

const errorOf = (reply: FromIndexThread) =>
  typeof reply === 'object' && 'error' in reply ? reply.error : 'unexpected reply'

function send(worker: Worker, message: ToIndexThread): Promise<FromIndexThread> {
  const { promise, resolve, reject } = Promise.withResolvers<FromIndexThread>()
  const ended = () => reject(new Error('The text index thread exited'))
  worker.on('message', resolve).on('error', reject).on('exit', ended)
  worker.postMessage(message)
  return promise.finally(() => worker.off('message', resolve).off('error', reject).off('exit', ended))
}

/**
 * Creates the triggers that record changes, before any rows are read. If the triggers were missing, invalidates the
 * index.
 */
async function ensureTriggers(tx: Queryable, { table }: Searched, token: string): Promise<void> {
  const { rows } = await sql`select 1 from sqlite_schema where type = 'trigger'
    and name in (${`${table}_search_updated`}, ${`${table}_search_deleted`})`.execute(tx)
  if (rows.length === 2) return
  for (const [name, change] of [
    ['updated', 'update'],
    ['deleted', 'delete'],
  ]) {
    await sql
      .raw(
        `create trigger if not exists "${table}_search_${name}" after ${change} on "${table}" begin
           insert or replace into search_changes (name, id) values ('${table}', old.rowid); end`,
      )
      .execute(tx)
  }
  await sql`insert or replace into search_indexes (name, token, indexed_to) values (${table}, ${token}, 0)`.execute(tx)
}
