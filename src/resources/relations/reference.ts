import type { Caller } from '../../http/policies/authenticate.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowPrecondition } from '../../storage/rows/precondition.ts'
import type { RowTest } from '../../storage/rows/row-test.ts'
import type { Deleted, Row } from '../../storage/rows/rows.ts'
import type { Reach } from '../access/rules.ts'

/** What happens to a row when the row that it refers to is deleted: see `Ref`. */
export type OnDelete = 'restrict' | 'cascade' | 'setNull'

export const deleteRules: readonly OnDelete[] = ['restrict', 'cascade', 'setNull']

/** A field whose value is the id of a row. */
export interface Reference {
  field: string
  /** The name of the relation, such as `customer` for the field `customerId`. */
  name: string
  /** The collection it refers to. */
  path: `/${string}`
  noun: string
  table: string
  onDelete: OnDelete
}

/** The name of the relation of a field: `customer` for `customerId`. */
export const relationName = (field: string): string => field.replace(/Id$/, '')

type Values = Readonly<Record<string, unknown>>

/** A row to change, and what it must meet. */
export interface ChangedRow {
  id: number
  precondition: RowPrecondition
}

/**
 * Checks what a write refers to, in its transaction. Throws 422 VALIDATION_ERROR, which names every field. A row that the
 * caller cannot read is refused like one that does not exist.
 */
export interface ReferenceCheck {
  /** Evaluates what the caller can refer to, before the transaction; undefined if every row. */
  reachOf: (caller: Caller) => Promise<Reach> | undefined
  created: (tx: Queryable, values: Values, reach: Reach | undefined) => Promise<void>
  /** Checks references that a change sets or alters; false if no row matches the precondition. */
  changed: (tx: Queryable, row: ChangedRow, values: Values, reach: Reach | undefined) => Promise<boolean>
}

/** Who deletes, when (ISO 8601), and what the caller can read of other collections; undefined if every row. */
export interface Deletion {
  caller: Caller
  now: string
  reach: Reach | undefined
}

/** Deletes a row with what refers to it; undefined if no row matches the precondition. */
export type Remove = (
  tx: Queryable,
  id: number,
  precondition: RowPrecondition,
  deletion: Deletion,
) => Promise<Deleted | undefined>

/** What the rows of collections must pass so that the caller can read them, by path; all rows of other collections. */
export type ReadableRows = ReadonlyMap<string, RowTest>

/** A parsed `expand` parameter. */
export interface Expand {
  /** False if the collections to include have fields that depend on the time. */
  isCacheable: boolean
  /** Evaluates the access rules of the collections to include; returns undefined if they have none. */
  readable: () => Promise<ReadableRows> | undefined
  /** Reads the related rows of some rows; returns the members that they add to each: null for a row that is missing. */
  membersOf: (
    rows: readonly Row[],
    readable: ReadableRows | undefined,
  ) => Promise<(row: Row) => Record<string, unknown>>
}
