import { type RawBuilder, type SelectQueryBuilder, sql } from 'kysely'
import type { Queryable } from '../database.ts'
import { idOrNone } from '../ids.ts'
import { type RowTest, testSql } from './row-test.ts'

/** What a row must pass to be read, and to be changed. */
export interface RowTests {
  read: RowTest
  write: RowTest
}

/** A row and which tests it passed when it was read. */
export interface JudgedRow<Row> {
  row: Row
  canRead: boolean
  canWrite: boolean
}

/** Tests of single rows that look at related rows. */
export interface RowJudge<Row> {
  /** The row with an id; one statement reads and tests it. */
  judged: (id: number, tests: RowTests) => Promise<JudgedRow<Row> | undefined>
  /** True if the row passes a test, as it is in a transaction. */
  passes: (tx: Queryable, id: number, test: RowTest) => Promise<boolean>
}

type Selection = SelectQueryBuilder<never, never, unknown>

/** The judge of a table's rows, which `base` selects. */
export function rowJudge<Row>(table: string, base: unknown, decode: (row: Row) => Row | undefined): RowJudge<Row> {
  // Aliases that no field has, because fields are camelCase.
  const flag = (test: RowTest, name: string) => sql<number>`case when ${judging(test)} then 1 else 0 end`.as(name)
  return {
    judged: async (id, { read, write }) => {
      const flagged = (base as Selection).select([flag(read, 'can_read'), flag(write, 'can_write')])
      const found = (await flagged.where('id' as never, '=', idOrNone(id) as never).executeTakeFirst()) as
        | (Row & { can_read: number; can_write: number })
        | undefined
      if (found === undefined) return undefined
      const { can_read, can_write, ...row } = found
      return { row: decode(row as Row) as Row, canRead: can_read === 1, canWrite: can_write === 1 }
    },
    passes: async (tx, id, test) => {
      const query = sql`select 1 from ${sql.table(table)} where id = ${idOrNone(id)} and ${judging(test)}`
      return (await query.execute(tx)).rows.length > 0
    },
  }
}

const judging = (test: RowTest): RawBuilder<boolean> => testSql(test, { isEach: true })
