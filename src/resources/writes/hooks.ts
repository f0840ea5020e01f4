import type { Caller } from '../../http/policies/authenticate.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import type { Row, Rows } from '../../storage/rows/rows.ts'

/** The last part of an event type, such as `note.created`. */
export type ChangeType = 'created' | 'updated' | 'deleted'

type AnyRow = Row | Pick<Row, 'id'>

/**
 * Records a change in its own transaction, as an event for webhooks and in the change log for event streams.
 * `subscribed` selects one or both, as in `Changed.subscribed`; default: both.
 */
export type Announce = (
  tx: Queryable,
  change: ChangeType,
  row: AnyRow,
  caller: Caller,
  now: string,
  subscribed?: number,
) => Promise<void>

interface RowKey {
  table: string
  id: RowId
}

/** Sends the event for a change, with this type and to these kinds of subscribers. */
type SendEvent = (change: ChangeType, subscribed: number) => Promise<void>

/** The state that several writes in one transaction share. */
export interface WriteUnit {
  /** The names of the hooks and actions that led to this write, outermost first. */
  chain: readonly string[]
  /**
   * Postpones the event for a change until the end of the transaction, or sends it immediately if no other change can
   * follow.
   */
  record: (row: RowKey, change: ChangeType, subscribed: number, send: SendEvent) => Promise<void>
  /** Returns the number of changes to a row in this transaction. */
  changesOf: (row: RowKey) => number
  /** Runs `work` at the end of the transaction, after the events of rows have been sent. */
  atEnd: (work: (tx: Queryable) => Promise<void>) => void
}

/** The caller who writes, and the time (ISO 8601). */
export interface WriteBy {
  caller: Caller
  now: string
  /** The unit that the write belongs to; undefined for a single write if the service has no `code`. */
  unit?: WriteUnit | undefined
}

type Values = Record<string, unknown>

/**
 * A collection's hooks, which run in the transaction of a write. `creating` and `changing` return all values to store.
 * A `Problem` thrown by a hook refuses the write; any other error results in a 500.
 */
export interface RowHooks {
  creating?: ((tx: Queryable, values: Values, by: WriteBy) => Promise<Values>) | undefined
  created?: ((tx: Queryable, row: Row, by: WriteBy) => Promise<unknown>) | undefined
  changing?: ((tx: Queryable, before: Row, values: Values, by: WriteBy) => Promise<Values>) | undefined
  changed?: ((tx: Queryable, before: Row, after: Row, by: WriteBy) => Promise<unknown>) | undefined
  removing?: ((tx: Queryable, row: Row, by: WriteBy) => Promise<unknown>) | undefined
  removed?: ((tx: Queryable, row: Row, by: WriteBy) => Promise<unknown>) | undefined
}

/** The author's code, as used by the writes of resources. */
export interface AuthorCode {
  /** Returns the hooks of a collection, with the names of its fields. */
  hooksOf: (path: string) => RowHooks | undefined
  /** Runs the writes of one transaction, then records their events and jobs in the same transaction. */
  inUnit: <T>(tx: Queryable, by: WriteBy, run: (by: WriteBy) => Promise<T>) => Promise<T>
}

/** Runs the writes of one transaction, as a unit if the service has `code`. */
export const asUnit = <T>(
  code: AuthorCode | undefined,
  tx: Queryable,
  by: WriteBy,
  run: (by: WriteBy) => Promise<T>,
): Promise<T> => (code ? code.inUnit(tx, by, run) : run(by))

/** Returns a row after its write; reads it again if a hook has changed it in the meantime. */
export function afterHooks(
  { rows, table }: { rows: Pick<Rows, 'readIn'>; table: string },
  tx: Queryable,
  row: Row,
  { unit }: WriteBy,
): Row | Promise<Row> {
  if (unit === undefined || unit.changesOf({ table, id: row.id }) === 1) return row
  return rows.readIn(tx, row.id).then((current) => current ?? row)
}

/** A changed row, and the kinds of subscribers to notify. */
interface ChangedRow {
  table: string
  change: ChangeType
  row: AnyRow
  subscribed: number
}

/** Sends the event for a change if it has subscribers: immediately, or when the unit sends its events. */
export async function publish(
  announce: Announce,
  tx: Queryable,
  { table, change, row, subscribed }: ChangedRow,
  { caller, now, unit }: WriteBy,
): Promise<void> {
  if (unit) {
    const send: SendEvent = (as, to) => announce(tx, as, row, caller, now, to)
    await unit.record({ table, id: row.id }, change, subscribed, send)
  } else if (subscribed > 0) await announce(tx, change, row, caller, now, subscribed)
}
