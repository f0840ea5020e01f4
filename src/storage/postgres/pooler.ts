import pg from 'pg'
import { ConfigError } from '../../startup-errors.ts'

/**
 * Opens a connection to a PostgreSQL server. Throws `ConfigError` if the URL leads to a connection pooler instead,
 * which sends a made-up process id. An error on the open connection is followed by an `end` event.
 */
export async function connectToServer(url: string, name: string): Promise<pg.Client> {
  const client = new pg.Client({
    ...{ connectionString: url, application_name: name, connectionTimeoutMillis: 10_000 },
    ...{ keepAlive: true, keepAliveInitialDelayMillis: 10_000 },
  })
  // Without a listener, a broken connection would crash the process.
  client.on('error', () => {})
  await client.connect()
  await refusePooler(client).catch(async (error) => {
    await client.end()
    throw error
  })
  return client
}

async function refusePooler(client: pg.Client & { processID?: number }): Promise<void> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  if (rows[0]?.pid === client.processID) return
  throw new ConfigError(
    'DATABASE_URL leads to a connection pooler, such as PgBouncer. Set PLINTH_DATABASE_DIRECT_URL to the URL of the ' +
      'PostgreSQL server itself, which is needed for locks, notifications, reports and searches',
  )
}

const timeouts = [
  ['statement_timeout', '5s'],
  ['lock_timeout', '2s'],
  ['idle_in_transaction_session_timeout', '10s'],
] as const

/**
 * Throws `ConfigError` if one of the timeouts is not set on the pooler's connections; the message contains the
 * statements that set the missing ones. The service can set timeouts itself only on direct connections.
 */
export async function checkPooler(pool: pg.Pool): Promise<void> {
  const settings = timeouts.map(([name]) => `current_setting('${name}') as ${name}`).join()
  const { rows } = await pool.query(`select quote_ident(current_user) as role, ${settings}`)
  const [{ role, ...values }] = rows as [Record<string, string>]
  const missing = timeouts.filter(([name]) => values[name] === '0')
  if (missing.length === 0) return
  const statements = missing.map(([name, value]) => `alter role ${role} set ${name} = '${value}';`)
  throw new ConfigError(
    `The connections of the pooler at DATABASE_URL have no ${missing.map(([name]) => name).join(' and no ')}. Run this ` +
      `on the server, and reconnect the pooler (RECONNECT in PgBouncer):\n${statements.join('\n')}`,
  )
}
