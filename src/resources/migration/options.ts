import type { Static, TObject } from 'typebox'
import type { IdOf, IdType, RowId } from '../../storage/ids.ts'
import type { BodyOf } from '../conditions/condition.ts'

/** The names of a body's fields. */
type Fields<B extends TObject> = keyof Static<B>
type Value<B extends TObject, F extends Fields<B>, Ids extends IdType> = NonNullable<
  BodyOf<B, Ids>[F & keyof BodyOf<B, Ids>]
>

/**
 * A row as it was served before the migration, with the current names of its fields. Fields without a value are absent.
 */
export type EarlierRow<Id extends RowId = RowId> = Readonly<Record<string, unknown>> & { readonly id: Id }

/** How existing rows are migrated when the body schema changes. */
export interface MigrateOptions<B extends TObject = TObject, Ids extends IdType = IdType> {
  /**
   * The earlier names of fields, such as `{ reference: 'number' }`. Rows do not change: each field keeps its column.
   */
  renamed?: { readonly [F in Fields<B>]?: string }
  /**
   * Values for new fields of existing rows: constants, which rewrite no row, or pure functions of the row, which
   * `plinth migrate` calls for each row.
   */
  fill?: { readonly [F in Fields<B>]?: Value<B, F, Ids> | ((row: EarlierRow<IdOf<Ids>>) => Value<B, F, Ids>) }
  /**
   * Pure functions that convert a field's value from its earlier type; `plinth migrate` calls them for each row with a
   * value. Annotate the parameter with the earlier type: `(old: number) => old.toFixed(2)`.
   */
  convert?: { readonly [F in Fields<B>]?: (old: never) => Value<B, F, Ids> }
}
