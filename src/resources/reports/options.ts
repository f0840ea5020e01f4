import type { Static, TObject } from 'typebox'
import type { IdType } from '../../storage/ids.ts'
import type { Condition, FieldsOf } from '../conditions/condition.ts'
import type { DatePart } from './report-columns.ts'

/** The fields of a resource with values of type `V`. */
type NamesOf<Fields, V> = {
  [Name in keyof Fields]-?: NonNullable<Fields[Name]> extends V ? Extract<Name, string> : never
}[keyof Fields]

/** Fields with plain text values, such as days, instants and decimals, except enumerations. */
type TextNames<Fields> = {
  [Name in keyof Fields]-?: string extends Fields[Name] ? Extract<Name, string> : never
}[keyof Fields]

/** An object with exactly one of the members. */
type OneOf<Names extends string, V> = {
  [Name in Names]: { [Member in Name]: V } & { [Other in Exclude<Names, Name>]?: never }
}[Names]

/**
 * Groups rows by the value of a field, or by a part of a day or instant in UTC: `{ month: 'due' }` yields values such
 * as `2026-11`.
 */
export type GroupOption<Fields> = NamesOf<Fields, string | number | boolean> | OneOf<DatePart, TextNames<Fields>>

/** Aggregates the rows of a group: counts them, or computes a sum, average, minimum or maximum. */
export type ShowOption<Fields> =
  | 'count'
  | OneOf<'sum' | 'avg' | 'min' | 'max', NamesOf<Fields, number> | TextNames<Required<Fields>>>

/** The fields that a report can name; `createdBy` exists only in resources with access rules. */
type ReportedFields<B extends TObject, Computed extends string, Ids extends IdType> = FieldsOf<B, Ids> & {
  createdBy: string
} & {
  readonly [Name in Computed]: string | number | boolean
}

/** The options of `report()`. */
export interface ReportOptions<
  B extends TObject = TObject,
  P extends TObject = TObject,
  Computed extends string = string,
  Ids extends IdType = IdType,
> {
  /** The report type, such as `revenue` or `revenue-by-month`. */
  name: string
  /** The title of the report; by default, the name in words, such as `Revenue by month`. */
  title?: string
  /** The parameters of report requests, created with `Type.Object()`; default: none. */
  parameters?: P
  /**
   * Returns a condition that selects the rows, `true` (the default) for all rows, or `false` for none. Must be a pure
   * function of the parameters.
   */
  where?: (parameters: Static<P>) => boolean | Condition<ReportedFields<B, Computed, Ids>>
  /** The columns to group by. The rows of the report are sorted by these columns, in the same order. */
  group?: Readonly<Record<string, GroupOption<ReportedFields<B, Computed, Ids>>>>
  /** The aggregates of each group or, without `group`, of all selected rows. */
  show?: Readonly<Record<string, ShowOption<ReportedFields<B, Computed, Ids>>>>
}
