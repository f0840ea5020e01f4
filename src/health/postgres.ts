import { type RawBuilder, sql } from 'kysely'
import { count } from '../backup/describe.ts'
import { threadsOf } from '../config/service.ts'
import { poolerUrlOf } from '../config/storage.ts'
import { queues } from '../queue/queue.ts'
import { maxConnections, poolShare } from '../storage/database.ts'
import { errorField } from '../storage/engine.ts'
import { type Check, type DatabaseContext, fail, pass, warn } from './check.ts'

const dayMs = 86_400_000
const minVersion = 13
/** The day on which support for each major version ends. */
const ends: Readonly<Record<number, string>> = {
  ...{ 13: '2025-11-13', 14: '2026-11-12', 15: '2027-11-11', 16: '2028-11-09', 17: '2029-11-08', 18: '2030-11-14' },
}

/**
 * Returns the maximum numbers of connections from a node with all roles: to the pooler, and directly to the server.
 * `serving` is the number of threads that serve requests.
 */
export function connectionsOfNode(serving: number): { pooled: number; direct: number } {
  const { main, reserved, scans, counters, queue, adding, wakeUps, node, textIndex } = maxConnections
  // With several threads, there are two more: one for background work, and the main thread, which only supervises.
  const services = serving === 1 ? 1 : serving + 1
  const threads = serving === 1 ? 1 : serving + 2
  const shared = (size: number) => poolShare(size, threads)
  return {
    pooled: threads * (shared(main) + shared(reserved)),
    direct:
      threads * shared(scans) +
      services * shared(counters) +
      (services - 1) * adding +
      (queue + wakeUps + node + textIndex + queues['report.generate'].concurrency),
  }
}

const maxUsedShare = 0.8

const insufficientPrivilege = '42501'

/** Reads one row; null on SQLite. */
async function rowOf<Row>({ db: { read, engine } }: DatabaseContext, query: RawBuilder<Row>): Promise<Row | null> {
  if (engine.name !== 'postgres') return null
  return (await query.execute(read)).rows[0] ?? null
}

/** Checks all B-tree indexes in the schema. Returns null if the extension amcheck is not installed. */
async function damagedIndexes({
  db: { read },
}: DatabaseContext): Promise<{ checked: number; damaged: string[] } | null> {
  const extension = await sql`select 1 from pg_extension where extname = 'amcheck'`.execute(read)
  if (extension.rows.length === 0) return null
  const { rows } = await sql<{ id: number; name: string }>`
    select c.oid::int8 as id, c.relname as name from pg_index i
    join pg_class c on c.oid = i.indexrelid
    join pg_am a on a.oid = c.relam
    where a.amname = 'btree' and i.indisvalid and c.relpersistence = 'p'
      and c.relnamespace = current_schema()::regnamespace
    order by c.relname`.execute(read)
  const damaged: string[] = []
  for (const { id, name } of rows) {
    try {
      await sql`select bt_index_check(${id}::oid)`.execute(read)
    } catch (error) {
      if (!String(errorField(error, 'code')).startsWith('XX')) throw error
      damaged.push(`${name} (${(error as Error).message})`)
    }
  }
  return { checked: rows.length, damaged }
}

/** Checks of a PostgreSQL server; they do not apply to SQLite. */
export const postgresChecks: readonly Check<DatabaseContext>[] = [
  {
    id: 'database.version',
    area: 'database',
    title: 'PostgreSQL release',
    rule: 'Fails below 13; warns if the release has no support any more',
    run: async (context) => {
      const found = await rowOf(
        context,
        sql<{ number: number; text: string }>`
          select current_setting('server_version_num')::int as number, current_setting('server_version') as text`,
      )
      if (found === null) return null
      const major = Math.floor(found.number / 10_000)
      if (major < minVersion) return fail(found.text, `Upgrade to PostgreSQL ${minVersion} or newer`)
      const end = ends[major]
      if (end === undefined || context.now() < Date.parse(end) + dayMs) return pass(found.text)
      return warn(`${found.text}; support ended on ${end}`, 'Upgrade to a supported release of PostgreSQL')
    },
  },
  {
    id: 'database.durability',
    area: 'database',
    title: 'Durability',
    rule: 'PostgreSQL: fails if `fsync` or `full_page_writes` is off; warns if `synchronous_commit` is off',
    run: async (context) => {
      const found = await rowOf(
        context,
        sql<{ fsync: string; pages: string; commit: string }>`
          select current_setting('fsync') as fsync, current_setting('full_page_writes') as pages,
            current_setting('synchronous_commit') as commit`,
      )
      if (found === null) return null
      const off = [...(found.fsync === 'off' ? ['fsync'] : []), ...(found.pages === 'off' ? ['full_page_writes'] : [])]
      const set = (name: string) => `Run \`alter system set ${name} = on\` and \`select pg_reload_conf()\``
      const [first] = off
      if (first !== undefined) return fail(`${off.join(' and ')} off: a crash can destroy the database`, set(first))
      if (found.commit !== 'off')
        return pass(`fsync and full_page_writes are on, synchronous_commit is ${found.commit}`)
      return warn('synchronous_commit is off: a crash can lose acknowledged writes', set('synchronous_commit'))
    },
  },
  {
    id: 'database.encoding',
    area: 'database',
    title: 'Encoding',
    rule: 'PostgreSQL: fails if the encoding of the database is not UTF8',
    run: async (context) => {
      const found = await rowOf(context, sql<{ name: string }>`select current_setting('server_encoding') as name`)
      if (found === null) return null
      if (found.name === 'UTF8') return pass(found.name)
      return fail(found.name, "Create a database with `encoding 'UTF8'`, and move the data there")
    },
  },
  {
    id: 'database.connections',
    area: 'database',
    title: 'Connections',
    rule: 'PostgreSQL: warns if more than 80 % of `max_connections` are in use, or if the nodes can open more than there are',
    run: async (context) => {
      const found = await rowOf(
        context,
        sql<{ used: number; nodes: number; max: number }>`
          select (select sum(numbackends)::int from pg_stat_database) as used,
            (select count(*)::int from pg_stat_activity
              where datname = current_database() and application_name ~ '^plinth .+ [0-9]+$') as nodes,
            current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as max`,
      )
      if (found === null) return null
      const { used, nodes, max } = found
      const hasPooler = poolerUrlOf(context.config.storage) !== null
      const { direct, pooled } = connectionsOfNode(threadsOf(context.config.service.threads))
      const ofNode = hasPooler ? direct : direct + pooled
      const needed = Math.max(1, nodes) * ofNode
      const others = hasPooler ? ', and the pooler its own' : ''
      const detail = `${used} of ${max} in use; ${count(nodes, 'node')} can open ${nodes * ofNode}${others}`
      if (used <= max * maxUsedShare && needed <= max) return pass(detail)
      return warn(detail, `Raise max_connections to ${Math.max(needed, used * 2)} or more`)
    },
  },
  {
    id: 'database.indexes',
    area: 'database',
    title: 'Index integrity',
    rule: 'PostgreSQL, `--deep`: fails if `amcheck` finds a damaged index; warns if the extension is not installed',
    deep: 'only',
    run: async (context) => {
      if (context.db.engine.name !== 'postgres') return null
      try {
        const found = await damagedIndexes(context)
        if (found === null) return warn('Not checked: amcheck is not installed', 'Run `create extension amcheck`')
        if (found.damaged.length === 0) return pass(`${count(found.checked, 'index', 'indexes')} without damage`)
        return fail(found.damaged.join('; '), 'Run `reindex index …`, and check the disk and the log of the server')
      } catch (error) {
        if (errorField(error, 'code') !== insufficientPrivilege) throw error
        return warn(
          'Not checked: this role may not call bt_index_check',
          'Run `grant execute on function bt_index_check(regclass) to …` as a superuser',
        )
      }
    },
  },
]
