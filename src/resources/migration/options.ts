import type { Static, TObject } from 'typebox'

/** The names and values of a body's fields. */
type Fields<B extends TObject> = keyof Static<B>
type Value<B extends TObject, F extends Fields<B>> = NonNullable<Static<B>[F]>

/** A row as it was served before: its fields by their current names, without those that it has no value for. */
export type EarlierRow = Readonly<Record<string, unknown>> & { readonly id: number }

/** How existing rows follow a change of the body. */
export interface MigrateOptions<B extends TObject = TObject> {
  /** The earlier names of fields, such as `{ reference: 'number' }`. No row changes: a field keeps its column. */
  renamed?: { readonly [F in Fields<B>]?: string }
  /**
   * The values that existing rows have in new fields: constants, which no row is rewritten for, or pure functions of the row,
   * which `plinth migrate` calls for each.
   */
  fill?: { readonly [F in Fields<B>]?: Value<B, F> | ((row: EarlierRow) => Value<B, F>) }
  /**
   * Pure functions that return the value of a field from that of its earlier type, which `plinth migrate` calls for each row
   * that has one. Annotate the parameter with that type: `(old: number) => old.toFixed(2)`.
   */
  convert?: { readonly [F in Fields<B>]?: (old: never) => Value<B, F> }
}
