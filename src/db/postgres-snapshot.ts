import pg from 'pg'
import { copyRows } from './copy-rows.ts'
import type { LongRead, Statement } from './long-read.ts'
import type { Snapshot } from './snapshot.ts'

const settings = {
  connectionTimeoutMillis: 3_000,
  keepAlive: true,
  application_name: 'plinth-report',
}

/** One moment of a PostgreSQL database: a repeatable-read transaction, read with COPY, the fastest way out of it. */
export async function postgresSnapshot(url: string): Promise<Snapshot> {
  const client = new pg.Client({ connectionString: url, ...settings })
  // The query under way reports a broken connection; without a listener the process would end.
  client.on('error', () => {})
  await client.connect()
  await client.query('begin isolation level repeatable read read only')
  await client.query('set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0')
  return {
    count: async ({ count }) => {
      const { rows } = await client.query({ text: count.sql, values: [...count.values], rowMode: 'array' })
      return Number((rows[0] as unknown[])[0])
    },
    pages: (read) => pages(client, read),
    close: () => client.end(),
  }
}

async function* pages(client: pg.Client, { whole, types }: LongRead): AsyncIterable<unknown[][]> {
  yield* copyRows(client, `copy (${await settled(client, whole)}) to stdout`, types)
}

/**
 * COPY takes no parameters, and values never become part of a statement's text: they travel as settings of the
 * transaction, which the statement reads.
 */
async function settled(client: pg.Client, { sql, values }: Statement): Promise<string> {
  for (const [at, value] of values.entries()) {
    await client.query('select set_config($1, $2, true)', [`plinth.value_${at + 1}`, String(value)])
  }
  return sql.replace(/\$(\d+)/g, (_, place) => {
    const type = typeof values[Number(place) - 1] === 'number' ? 'double precision' : 'text'
    return `(current_setting('plinth.value_${place}')::${type})`
  })
}
