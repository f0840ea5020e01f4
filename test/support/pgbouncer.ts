import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { freePort } from '../../src/serving/listeners.ts'
import { asPostgres } from './postgres-programs.ts'
import { eventually } from './service.ts'

const program = ['/usr/sbin/pgbouncer', 'pgbouncer'].find((path) => spawnSync(path, ['--version']).status === 0)

/** The reason to skip tests that need PgBouncer, or false if it is installed. */
export const pgbouncerMissing: string | false = program === undefined ? 'pgbouncer is not installed' : false

/** PgBouncer in transaction mode. */
export interface PgBouncerUnderTest {
  /** The URL of the database through the pooler. */
  url: string
  /** Runs a command of PgBouncer's admin console, such as `reconnect`. */
  say: (command: string) => Promise<pg.QueryResult>
  stop: () => Promise<void>
}

/** Starts PgBouncer in front of the server at this URL, with three server connections for each database. */
export async function pgbouncer(serverUrl: string): Promise<PgBouncerUnderTest> {
  const server = new URL(serverUrl)
  const folder = mkdtempSync(join(tmpdir(), 'plinth-pgbouncer-'))
  chmodSync(folder, 0o755)
  const port = await freePort()
  const lines = [
    ...['[databases]', `* = host=${server.hostname} port=${server.port || 5432}`, '[pgbouncer]'],
    ...['listen_addr = 127.0.0.1', `listen_port = ${port}`, 'unix_socket_dir =', 'pool_mode = transaction'],
    ...['auth_type = trust', `auth_file = ${join(folder, 'users')}`, `admin_users = ${server.username}`],
    ...['default_pool_size = 3', 'max_client_conn = 200'],
  ]
  writeFileSync(join(folder, 'config'), `${lines.join('\n')}\n`)
  writeFileSync(join(folder, 'users'), `"${server.username}" ""\n`)
  const [command, ...args] = asPostgres(program as string, '--quiet', join(folder, 'config'))
  const child = spawn(command, args, { stdio: 'ignore', cwd: folder })
  const urlOf = (pathname: string) => Object.assign(new URL(serverUrl), { hostname: '127.0.0.1', port, pathname }).href
  const say = async (text: string) => {
    const client = new pg.Client({ connectionString: urlOf('/pgbouncer') })
    await client.connect()
    return client.query(text).finally(() => client.end())
  }
  await eventually('PgBouncer responds', () =>
    say('show version').then(
      () => true,
      () => false,
    ),
  )
  return {
    url: urlOf(server.pathname),
    say,
    stop: async () => {
      const ended = once(child, 'exit')
      child.kill('SIGINT')
      await ended
      rmSync(folder, { recursive: true })
    },
  }
}
