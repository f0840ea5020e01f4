import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import type { RowId } from '../ids.ts'
import type { ScanRequester } from '../scans/scan.ts'
import type { ColumnNames } from './column-names.ts'
import { limitExpression, readColumn } from './page-query.ts'
import { hasId, type RowPrecondition, wherePrecondition } from './precondition.ts'
import { passesAll, type RowTest, testSql } from './row-test.ts'

/** Rows to read in the order of their ids. */
export interface RowSelection {
  test: RowTest
  /** The id before the first row. */
  after: RowId
  limit: number
  /** Locks the rows until the transaction ends. */
  lock?: RawBuilder<unknown> | undefined
}

/** Reads whole rows. Reads in a transaction see its uncommitted changes. */
export interface RowReads<Row> {
  /** Reads a row that meets the precondition; undefined if there is none. */
  readIn: (
    tx: Queryable,
    id: RowId,
    options?: { precondition?: RowPrecondition | undefined; lock?: RawBuilder<unknown> | undefined },
  ) => Promise<Row | undefined>
  selectIn: (tx: Queryable, selection: RowSelection) => Promise<Row[]>
  countIn: (tx: Queryable, test: RowTest) => Promise<number>
  /** Reads like `selectIn`, but as a scan, so that other reads never wait for it. Throws `ScanRefused`. */
  selectAside: (selection: Omit<RowSelection, 'lock'>, requester: ScanRequester) => Promise<Row[]>
  /** Counts like `countIn`, as a scan. */
  countAside: (test: RowTest, requester: ScanRequester) => Promise<number>
}

interface Source<Row> {
  table: string
  fields: readonly string[]
  wide: readonly string[]
  columns: ColumnNames | undefined
  decode: (row: Row) => Row | undefined
}

const judging = (test: RowTest): RawBuilder<unknown> =>
  test === passesAll ? sql`true` : testSql(test, { isEach: true })

/** Creates the functions that read the rows of a table. */
export function rowReads<Row>(db: Database, { table, fields, wide, columns, decode }: Source<Row>): RowReads<Row> {
  const read = fields.map((field) => sql<unknown>`${readColumn(field, { wide, columns })}`.as(field))
  // Typed as `products`, because all resource tables have the same bookkeeping columns.
  const base = (tx: Queryable) =>
    tx
      .withoutPlugins()
      .selectFrom(table as 'products')
      .select(read)
  const none = sql``
  const page = (tx: Queryable, { test, after, limit }: RowSelection) =>
    base(tx)
      .where(sql<boolean>`id > ${after} and ${judging(test)}`)
      .orderBy('id')
      .limit(limitExpression(limit))
  const counted = (tx: Queryable, test: RowTest) =>
    tx
      .withoutPlugins()
      .selectFrom(table as 'products')
      .select(sql<number>`count(*)`.as('count'))
      .where(sql<boolean>`${judging(test)}`)
  const decoded = (rows: unknown[]) => (rows as Row[]).map((row) => decode(row) as Row)
  const interruptible = db.engine.interruptible(table)
  return {
    readIn: async (tx, id, { precondition = {}, lock = none } = {}) => {
      const query = wherePrecondition(base(tx).where(hasId(id)), precondition)
      const row = (await query.modifyEnd(lock).executeTakeFirst()) as Row | undefined
      return row && (decode(row) as Row)
    },
    selectIn: async (tx, selection) =>
      decoded(
        await page(tx, selection)
          .modifyEnd(selection.lock ?? none)
          .execute(),
      ),
    countIn: async (tx, test) => Number((await counted(tx, test).executeTakeFirstOrThrow()).count),
    selectAside: async (selection, requester) =>
      decoded(await db.scan(page(db.read, selection).where(interruptible), requester)),
    countAside: async (test, requester) => {
      const [row] = await db.scan(counted(db.read, test).where(interruptible), requester)
      return Number(row?.count)
    },
  }
}
