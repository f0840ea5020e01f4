import { hostname } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import type pg from 'pg'
import { DatabaseInUse } from '../sqlite/lock.ts'
import { connectToServer } from './pooler.ts'

/** An arbitrary number, identical on every node. The second key distinguishes services in different schemas. */
const nodesLock = 5_470_114
const keys = `${nodesLock}, hashtext(current_schema())`
const retryMs = 1_000

/**
 * Opens the connection that holds the lock. It bypasses the pooler, whose own connections would otherwise hold the
 * lock.
 */
const connect = (url: string): Promise<pg.Client> =>
  connectToServer(url, `plinth ${hostname().slice(0, 40)} ${process.pid}`)

async function locked(client: pg.Client, lock: string): Promise<boolean> {
  const { rows } = await client.query<{ locked: boolean }>(`select pg_${lock}(${keys}) as locked`)
  return rows[0]?.locked === true
}

/** Takes a node's lock. Throws `DatabaseInUse` while rows are being migrated. */
async function join(url: string): Promise<pg.Client> {
  const client = await connect(url)
  if (await locked(client, 'try_advisory_lock_shared')) return client
  await client.end()
  throw new DatabaseInUse('plinth migrate is changing rows of this database: start again when it has finished')
}

/**
 * Holds a node's lock until the returned function is called. No rows are migrated while any node holds it. The server
 * releases the lock when the connection ends, even if the process is killed. If the connection breaks, a new connection
 * takes the lock again.
 */
export async function joinNodes(url: string, onError: (error: unknown) => void): Promise<() => Promise<void>> {
  let isOpen = true
  const rejoin = async () => {
    for (let attempt = 0; isOpen; attempt++) {
      const next = await join(url).catch((error) => void (attempt === 0 && onError(error)))
      if (next !== undefined) return watched(next)
      await wait(retryMs, undefined, { ref: false })
    }
  }
  const watched = (client: pg.Client) => {
    client.once('end', () => {
      if (isOpen) void rejoin()
    })
    current = client
    if (!isOpen) void client.end()
  }
  let current = await join(url)
  watched(current)
  return async () => {
    isOpen = false
    await current.end()
  }
}

/**
 * Prevents the service's processes from using the database until the returned function is called. Throws
 * `DatabaseInUse`, naming the processes, if any are using it now.
 */
export async function excludePostgresNodes(url: string): Promise<() => Promise<void>> {
  const client = await connect(url)
  if (await locked(client, 'try_advisory_lock')) return () => client.end()
  const { rows } = await client.query<{ name: string }>(`
    select a.application_name as name from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'advisory' and l.granted and l.classid::bigint = ${nodesLock}
      and l.objid::bigint = (hashtext(current_schema())::bigint & 4294967295)
      and l.database = (select oid from pg_database where datname = current_database())
    order by a.backend_start`)
  await client.end()
  const holders = rows.map(({ name }) => name.replace(/^plinth (.+) (\d+)$/, 'process $2 on $1'))
  throw new DatabaseInUse(`the database is used by ${holders.join(', ') || 'another process'}: stop it first`)
}
