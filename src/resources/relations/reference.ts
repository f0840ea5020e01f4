import type { Caller } from '../../http/policies/authenticate.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import type { RowPrecondition } from '../../storage/rows/precondition.ts'
import type { RowTest } from '../../storage/rows/row-test.ts'
import type { Deleted, Row } from '../../storage/rows/rows.ts'
import type { Reach } from '../access/rules.ts'
import type { WriteBy } from '../writes/hooks.ts'

/** What happens to a row when the row that it refers to is deleted: see `Ref`. */
export type OnDelete = 'restrict' | 'cascade' | 'setNull'

export const deleteRules: readonly OnDelete[] = ['restrict', 'cascade', 'setNull']

/** A field that contains the id of a row. */
export interface Reference {
  field: string
  /** The name of the relation, such as `customer` for the field `customerId`. */
  name: string
  /** The path of the collection that the field refers to. */
  path: `/${string}`
  noun: string
  table: string
  onDelete: OnDelete
}

/** Returns the name of a field's relation: `customer` for `customerId`. */
export const relationName = (field: string): string => field.replace(/Id$/, '')

type Values = Readonly<Record<string, unknown>>

/** A row to change, and its precondition. */
export interface ChangedRow {
  id: RowId
  precondition: RowPrecondition
}

/**
 * Checks the references in a write, in the same transaction. Throws 422 VALIDATION_ERROR, which lists every invalid
 * field. The error for a row that the caller cannot read is the same as for a row that does not exist.
 */
export interface ReferenceCheck {
  /** Determines, before the transaction, which rows the caller can refer to; undefined means every row. */
  reachOf: (caller: Caller) => Promise<Reach> | undefined
  created: (tx: Queryable, values: Values, reach: Reach | undefined) => Promise<void>
  /**
   * Checks the references that a change adds or alters. Returns false if it notices that no row meets the precondition.
   */
  changed: (tx: Queryable, row: ChangedRow, values: Values, reach: Reach | undefined) => Promise<boolean>
}

/**
 * Who deletes a row, when (ISO 8601), and which rows of other collections the caller can read (undefined means all).
 */
export interface Deletion extends WriteBy {
  reach: Reach | undefined
}

/** Handles the content of deleted rows in the same transaction, for example by storing it for a later restore. */
export type KeepRows = (tx: Queryable, rows: readonly Deleted['row'][], deletion: Deletion) => Promise<void>

/** Deletes a row and handles the rows that refer to it. Returns undefined if no row meets the precondition. */
export type Remove = (
  tx: Queryable,
  id: RowId,
  precondition: RowPrecondition,
  deletion: Deletion,
) => Promise<Deleted | undefined>

/**
 * Tests for the rows that the caller can read, by collection path. All rows of collections without a test are readable.
 */
export type ReadableRows = ReadonlyMap<string, RowTest>

/** A parsed `expand` parameter. */
export interface Expand {
  /** False if one of the collections to include has fields that depend on the time. */
  isCacheable: boolean
  /** Evaluates the access rules of the collections to include; returns undefined if none of them has any. */
  readable: () => Promise<ReadableRows> | undefined
  /** Reads the related rows of these rows and returns the members to add to each; null stands for a missing row. */
  membersOf: (
    rows: readonly Row[],
    readable: ReadableRows | undefined,
  ) => Promise<(row: Row) => Record<string, unknown>>
}
