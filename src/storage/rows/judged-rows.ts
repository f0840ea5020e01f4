import { type RawBuilder, type SelectQueryBuilder, sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { RowId } from '../ids.ts'
import { hasId } from './precondition.ts'
import { type RowTest, testSql } from './row-test.ts'

/** The tests that decide whether a row may be read and whether it may be changed. */
export interface RowTests {
  read: RowTest
  write: RowTest
}

/** A row, with the results of the tests at the time it was read. */
export interface JudgedRow<Row> {
  row: Row
  canRead: boolean
  canWrite: boolean
}

/** Tests single rows. A test may depend on related rows. */
export interface RowJudge<Row> {
  /** Reads a row and applies the tests to it, in one statement. */
  judged: (id: RowId, tests: RowTests) => Promise<JudgedRow<Row> | undefined>
  /** Returns true if the row, as this transaction sees it, passes a test. */
  passes: (tx: Queryable, id: RowId, test: RowTest) => Promise<boolean>
}

type Selection = SelectQueryBuilder<never, never, unknown>

/** Returns the `RowJudge` of a table; `base` is the query that selects the rows. */
export function rowJudge<Row>(table: string, base: unknown, decode: (row: Row) => Row | undefined): RowJudge<Row> {
  // The aliases `can_read` and `can_write` cannot be names of fields, which are camelCase.
  const flag = (test: RowTest, name: string) => sql<number>`case when ${judging(test)} then 1 else 0 end`.as(name)
  return {
    judged: async (id, { read, write }) => {
      const flagged = (base as Selection).select([flag(read, 'can_read'), flag(write, 'can_write')])
      const found = (await flagged.where(hasId(id)).executeTakeFirst()) as
        | (Row & { can_read: number; can_write: number })
        | undefined
      if (found === undefined) return undefined
      const { can_read, can_write, ...row } = found
      return { row: decode(row as Row) as Row, canRead: can_read === 1, canWrite: can_write === 1 }
    },
    passes: async (tx, id, test) => {
      const query = sql`select 1 from ${sql.table(table)} where ${hasId(id)} and ${judging(test)}`
      return (await query.execute(tx)).rows.length > 0
    },
  }
}

const judging = (test: RowTest): RawBuilder<boolean> => testSql(test, { isEach: true })
