import { CamelCasePlugin, CompiledQuery, Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { postgres } from './engine.ts'
import type { Database } from './open.ts'
import type { Tables } from './tables.ts'

const int8 = 20
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === int8 ? Number : pg.types.getTypeParser(oid, format as 'text')) as never,
}

const patient = { connectionTimeoutMillis: 3_000, statement_timeout: 5_000 }
const hasty = {
  connectionTimeoutMillis: 500,
  statement_timeout: 500,
  // For a server that says nothing at all: one that answers is given the time to say that the statement took too long.
  query_timeout: 700,
  options: '-c synchronous_commit=off',
}

/** Opens a pool of at most `max` connections; rejects when the server cannot be reached. */
export async function openPostgres(url: string, max: number, isHasty: boolean): Promise<Database> {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    types,
    ...(isHasty ? hasty : patient),
    lock_timeout: 2_000,
    idle_in_transaction_session_timeout: 10_000,
    application_name: 'plinth',
  })
  // An idle connection that breaks is replaced on the next use; the failing query reports what matters.
  pool.on('error', () => {})
  // So does one that breaks while it is lent out; without a listener the process would end.
  const names = new Map<string, string>()
  pool.on('connect', (client) => {
    client.on('error', () => {})
    useNames(client, names)
  })
  await pool.query('select 1')
  const read = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }), plugins: [new CamelCasePlugin()] })
  const prepare: Database['prepare'] = (query) => {
    const text = query.compile().sql
    const name = names.get(text) ?? `plinth_${names.size + 1}`
    names.set(text, name)
    return {
      all: async (values) => (await pool.query({ name, text, values: findable(text, [...values]) })).rows,
      in: async (tx, values) => {
        const { rows, numAffectedRows } = await tx.executeQuery(CompiledQuery.raw(text, [...values]))
        return { rows: rows as never, changed: Number(numAffectedRows ?? rows.length) }
      },
    }
  }
  return {
    engine: postgres,
    url,
    read,
    write: (unit) => read.transaction().execute(unit),
    prepare,
    prepareInsert: (query, question) => {
      const insert = prepare<{ id: number; answer: boolean }>(query.returning('id').returning(question.as('answer')))
      return async (tx, values) => (await insert.in(tx, values)).rows[0] as { id: number; answer: boolean }
    },
    generation: () => null,
    ping: async () => void (await sql`select 1`.execute(read)),
    close: async () => {
      await read.destroy()
      // Kysely ends a pool only once it has used it.
      if (!pool.ending) await pool.end()
    },
  }
}

/** Statements that were prepared are sent by name inside of transactions too: the server then plans them once. */
function useNames(client: pg.PoolClient, names: ReadonlyMap<string, string>): void {
  const query = client.query.bind(client) as (...given: unknown[]) => unknown
  const named = (text: unknown, given: unknown, ...rest: unknown[]) => {
    if (typeof text !== 'string' || !Array.isArray(given)) return query(text, given, ...rest)
    const [name, values] = [names.get(text), findable(text, given)]
    return name === undefined ? query(text, values, ...rest) : query({ name, text, values }, ...rest)
  }
  Object.assign(client, { query: named })
}

const hasNul = (value: unknown) => typeof value === 'string' && value.includes('\0')

/**
 * PostgreSQL keeps U+0000 in no text, and refuses it in a question too. What a condition compares becomes null, which
 * equals nothing: no row is found, as none has it. What is to be written stays, to be refused.
 */
function findable(text: string, values: unknown[]): unknown[] {
  if (!values.some(hasNul)) return values
  const written = new Set(text.split(/\swhere\s/i, 1)[0]?.match(/\$\d+/g))
  return values.map((value, at) => (hasNul(value) && !written.has(`$${at + 1}`) ? null : value))
}
