import type { Caller } from '../../http/policies/authenticate.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowPrecondition } from '../../storage/rows/precondition.ts'
import type { Row } from '../../storage/rows/rows.ts'

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

/** Checks what a write refers to, in its transaction. Throws 422 VALIDATION_ERROR, which names every field. */
export interface ReferenceCheck {
  created: (tx: Queryable, values: Values) => Promise<void>
  /** Checks references that a change sets or alters; false if no row matches the precondition. */
  changed: (tx: Queryable, id: number, values: Values, precondition: RowPrecondition) => Promise<boolean>
}

/** Who deletes, and when (ISO 8601). */
export interface Deletion {
  caller: Caller
  now: string
}

/** Deletes a row with what refers to it; undefined if no row matches the precondition. */
export type Remove = (
  tx: Queryable,
  id: number,
  precondition: RowPrecondition,
  deletion: Deletion,
) => Promise<{ subscribed: boolean } | undefined>

/** Reads the related rows of some rows; returns the members that they add to each: null for a row that is missing. */
export type Expand = (rows: readonly Row[]) => Promise<(row: Row) => Record<string, unknown>>
