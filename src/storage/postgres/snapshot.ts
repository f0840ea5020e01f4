import pg from 'pg'
import { type CellType, errorField } from '../engine.ts'
import type { LongRead, Statement } from '../snapshots/long-read.ts'
import { type CsvBlock, readAggregates, type Snapshot, SumOutOfRange } from '../snapshots/snapshot.ts'
import { copyCsv, copyRows } from './copy-rows.ts'

const settings = {
  connectionTimeoutMillis: 3_000,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
  application_name: 'plinth-report',
}

/** Opens a PostgreSQL snapshot: a repeatable-read transaction, read with COPY, the fastest way to export rows. */
export async function postgresSnapshot(url: string): Promise<Snapshot> {
  const client = new pg.Client({ connectionString: url, ...settings })
  // The running query reports a broken connection; without a listener, the error would crash the process.
  client.on('error', () => {})
  await client.connect()
  await client.query('begin isolation level repeatable read read only')
  // Overrides the database's settings: no timeouts, and full precision for numbers.
  await client.query(`set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0;
    set local extra_float_digits = 1`)
  return {
    prepare: (read) => explain(client, read),
    count: async ({ count }) => {
      const { rows } = await client.query({ text: count.sql, values: [...count.values], rowMode: 'array' })
      return Number((rows[0] as unknown[])[0])
    },
    pages: (read) => pages(client, read),
    csv: ({ csv }) => csv && csvBlocks(client, csv),
    close: () => client.end(),
  }
}

/** Lets the server plan each statement exactly as it will run, so that errors are found before the read. */
async function explain(client: pg.Client, { whole, count, csv }: LongRead): Promise<void> {
  // Without a savepoint, an invalid statement would abort the transaction.
  await client.query('savepoint explained')
  try {
    await client.query(`explain ${count.sql}`, [...count.values])
    for (const statement of csv ? [whole, csv] : [whole])
      await client.query(`explain ${await withSettings(client, statement)}`)
  } finally {
    await client.query('rollback to savepoint explained')
  }
}

async function* pages(client: pg.Client, read: LongRead): AsyncIterable<unknown[][]> {
  const { whole, types } = read
  const rows = copyRows(client, `copy (${await withSettings(client, whole)}) to stdout`, types)
  yield* read.isAggregated ? groups(rows, types) : rows
}

const numericOutOfRange = '22003'

async function* groups(rows: AsyncIterable<unknown[][]>, types: readonly CellType[]): AsyncIterable<unknown[][]> {
  try {
    for await (const page of rows) yield readAggregates(page, types)
  } catch (error) {
    throw errorField(error, 'code') === numericOutOfRange ? new SumOutOfRange() : error
  }
}

async function* csvBlocks(client: pg.Client, csv: Statement): AsyncIterable<CsvBlock> {
  yield* copyCsv(client, `copy (${await withSettings(client, csv)}) to stdout (format csv)`)
}

/**
 * Passes the values as settings of the transaction. COPY accepts no parameters, and values must never be inserted into
 * SQL text.
 */
async function withSettings(client: pg.Client, { sql, values }: Statement): Promise<string> {
  for (const [at, value] of values.entries()) {
    await client.query('select set_config($1, $2, true)', [`plinth.value_${at + 1}`, String(value)])
  }
  return sql.replace(/\$(\d+)/g, (_, position) => {
    const type = typeof values[Number(position) - 1] === 'number' ? 'double precision' : 'text'
    return `(current_setting('plinth.value_${position}')::${type})`
  })
}
