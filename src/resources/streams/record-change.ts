import { sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import { idOrNone, type RowId } from '../../storage/ids.ts'
import { rowCodec } from '../../storage/rows/column-codec.ts'
import { readColumn } from '../../storage/rows/page-query.ts'
import type { Row } from '../../storage/rows/rows.ts'
import type { Declaration } from '../declaration.ts'
import { codecsOf } from '../table.ts'
import type { ChangeType } from '../writes/hooks.ts'

/** Returns the facts about a row that access rules compare. */
export type FactsOf = (tx: Queryable, row: Readonly<Record<string, unknown>>) => Promise<Record<string, unknown>>

/** Logs a change of a row in the transaction of that change. */
export type RecordChange = (
  tx: Queryable,
  change: ChangeType,
  row: Pick<Row, 'id'> & Partial<Row>,
  now: string,
) => Promise<void>

/**
 * Returns the function that logs the changes of one resource: the row before and after the change, with the facts that
 * access rules compare.
 */
export function changeLogger(db: Database, declaration: Declaration, factsOf: FactsOf): RecordChange {
  const { noun, access, writeOnly } = declaration
  // Write-only fields are logged only if there are access rules, which may compare them.
  const readableFields = (row: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(Object.entries(row).filter(([name]) => !writeOnly.includes(name)))
  const loggedOf = (tx: Queryable, row: Readonly<Record<string, unknown>>) =>
    access ? factsOf(tx, row) : writeOnly.length > 0 ? readableFields(row) : { ...row }
  const { rowLog } = db
  const committed = committedRow(db, declaration)
  /**
   * Returns the JSON text of a row before the current change, at or before this revision: from the log's memory if it
   * is there, otherwise from the committed row, which other connections still see. Returns null if the committed row is
   * newer. It is older if the transaction has changed the row several times.
   */
  const before = async (tx: Queryable, id: RowId, revision: number) => {
    const logged = rowLog.loggedRow(tx, noun, id, revision)
    if (logged) return logged
    const row = await committed(id)
    return row && Number(row.revision) <= revision ? JSON.stringify(await loggedOf(tx, row)) : null
  }
  return async (tx, change, row, now) => {
    const { id, revision = 0 } = row
    const entry = { noun, change, id, revision, createdAt: now }
    const logged = loggedOf(tx, row)
    const current = JSON.stringify(logged instanceof Promise ? await logged : logged)
    if (change === 'deleted') {
      const removed = (await before(tx, id, revision)) ?? current
      return rowLog.add(tx, { ...entry, before: removed, after: null })
    }
    const previous = change === 'updated' ? await before(tx, id, revision - 1) : null
    rowLog.add(tx, { ...entry, before: previous, after: current })
  }
}

/**
 * Returns the function that reads the committed state of a row, outside the current transaction. It uses a reserved
 * connection, because all other connections may be waiting for this transaction.
 */
function committedRow({ reserved }: Database, declaration: Declaration) {
  const { table, columns, kinds, computed, access } = declaration
  const fields = ['id', ...Object.keys(kinds), ...computed.totals.map(({ name }) => name)]
  const all = [...fields, 'revision', 'createdAt', 'updatedAt', ...(access ? ['createdBy'] : [])]
  const codecs = codecsOf(declaration)
  const wide = Object.keys(codecs).filter((field) => codecs[field]?.isWide)
  const selected = sql.join(all.map((field) => sql`${readColumn(field, { wide, columns })} as ${sql.ref(field)}`))
  const { decode } = rowCodec(codecs)
  const compile = () =>
    sql<Record<string, unknown>>`select ${selected} from ${sql.ref(table)} where id = ${0}`.compile(
      reserved.read.withoutPlugins(),
    )
  let prepared: ReturnType<typeof reserved.prepare<Record<string, unknown>>> | undefined
  return async (id: RowId) => {
    prepared ??= reserved.prepare({ compile })
    const [row] = await prepared.all([idOrNone(id)])
    return decode(row)
  }
}
