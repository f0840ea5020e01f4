import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import type { Sealer } from '../encryption.ts'

/** A column with encrypted values. */
export interface SealedColumn {
  table: string
  column: string
  /** The columns of the primary key, all of which are text. */
  key: readonly string[]
  /** Returns the additional authenticated data (AAD) for the value in the row with this primary key. */
  locationOf: (...key: string[]) => string
  /**
   * If set, only rows with one of these values in their first key column contain an encrypted value. Default: all rows.
   */
  only?: readonly string[]
}

/** Throws `Unsealable` if this sealer cannot decrypt the database's values. Checks a single value. */
export async function refuseOtherKey(read: Queryable, { open }: Sealer, columns: readonly SealedColumn[]) {
  for (const column of columns) {
    const [row] = await rowsOf(read, column, { where: sql`${sql.ref(column.column)} like 'v%'`, maxRows: 1 })
    if (row === undefined) continue
    open(row.sealed, column.locationOf(...row.key))
    return
  }
}

interface SealedRow {
  key: string[]
  sealed: string
}

interface Selection {
  where: RawBuilder<unknown>
  maxRows: number
  after?: readonly string[] | undefined
  lock?: RawBuilder<unknown>
}

async function rowsOf(db: Queryable, column: SealedColumn, selection: Selection): Promise<SealedRow[]> {
  const { table, key, column: name, only } = column
  const { where, maxRows, after, lock = sql`` } = selection
  const keys = sql.join(key.map((one) => sql.ref(one)))
  const conditions = [
    where,
    ...(after ? [sql`(${keys}) > (${sql.join(after)})`] : []),
    ...(only ? [sql`${sql.ref(key[0] as string)} in (${sql.join(only)})`] : []),
  ]
  const shown = key.map((one, at) => sql`${sql.ref(one)} as ${sql.ref(`key${at}`)}`)
  const { rows } = await sql<Record<string, string>>`
    select ${sql.join([...shown, sql`${sql.ref(name)} as sealed`])} from ${sql.table(table)}
    where ${sql.join(conditions, sql` and `)} order by ${keys} limit ${sql.lit(maxRows)} ${lock}`.execute(db)
  return rows.map((row) => ({ key: key.map((_, at) => row[`key${at}`] as string), sealed: row.sealed as string }))
}

const batchRows = 200

/** Matches values that were not encrypted with this data key. */
const ofOtherKeys = ({ column }: SealedColumn, sealId: number) =>
  sql`${sql.ref(column)} <> '' and ${sql.ref(column)} not like ${`v2.${sealId}.%`}`

export interface Reencrypting {
  sealer: Sealer
  /** The id of the data key that the sealer encrypts with. */
  sealId: number
  /** Called after each batch with the number of rows in it. */
  onBatch: (column: SealedColumn, rows: number) => void
}

/**
 * Re-encrypts a column's values that use other data keys, one batch per transaction, and returns their number. Skips
 * locked rows, to avoid deadlocks and so that no request waits for more than one batch. Throws if a value cannot be
 * decrypted.
 */
export async function reencrypt(db: Database, column: SealedColumn, options: Reencrypting): Promise<number> {
  let count = 0
  for (let after: string[] | undefined; ; ) {
    const rows = await db.write((tx) => reencryptBatch(tx, db, column, after, options))
    if (rows.length === 0) return count
    after = rows.at(-1)?.key
    count += rows.length
    options.onBatch(column, rows.length)
  }
}

async function reencryptBatch(
  tx: Queryable,
  { engine }: Database,
  column: SealedColumn,
  after: readonly string[] | undefined,
  { sealer, sealId }: Reencrypting,
): Promise<SealedRow[]> {
  const { table, column: name, key } = column
  const where = ofOtherKeys(column, sealId)
  const rows = await rowsOf(tx, column, { where, after, maxRows: batchRows, lock: engine.lockFreeRows })
  if (rows.length === 0) return rows
  const cells = rows.map((row) => [...row.key, row.sealed, resealed(sealer, column, row)])
  const cell = (at: number) => sql`json_each.value ->> ${sql.lit(at)}`
  const own = (one: string) => sql.ref(`${table}.${one}`)
  const matches = [...key, name].map((one, at) => sql`${own(one)} = ${cell(at)}`)
  await sql`
    update ${sql.table(table)} set ${sql.ref(name)} = ${cell(key.length + 1)}
    from ${engine.jsonRows(JSON.stringify(cells))} where ${sql.join(matches, sql` and `)}`.execute(tx)
  return rows
}

function resealed(sealer: Sealer, { table, column, locationOf }: SealedColumn, { key, sealed }: SealedRow): string {
  const location = locationOf(...key)
  try {
    return sealer.seal(sealer.open(sealed, location), location)
  } catch (cause) {
    throw new Error(`${table}.${column} of ${key.join(', ')} cannot be decrypted: correct or delete this row first`, {
      cause,
    })
  }
}

/** Counts the values that were not encrypted with this data key. */
export async function countOthers(db: Queryable, column: SealedColumn, sealId: number): Promise<number> {
  const { table, key, only } = column
  const isListed = only ? sql`and ${sql.ref(key[0] as string)} in (${sql.join(only)})` : sql``
  const { rows } = await sql<{ count: number | string }>`
    select count(*) as count from ${sql.table(table)} where ${ofOtherKeys(column, sealId)} ${isListed}`.execute(db)
  return Number(rows[0]?.count)
}
