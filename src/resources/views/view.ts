import type { Static, TObject } from 'typebox'
import { DefinitionError } from '../../startup-errors.ts'
import type { IdType } from '../../storage/ids.ts'
import { collectionOf } from '../collection.ts'
import type { DefaultValue, DefaultValues } from '../constraints/creation.ts'
import type { Collection } from '../declaration.ts'
import type { FieldOf } from '../resource-options.ts'
import { type CheckedView, viewDeclaration } from './view-declaration.ts'
import { viewErrors } from './view-rules.ts'

type RequiredFieldOf<B extends TObject> = {
  [F in keyof Static<B>]-?: object extends Pick<Static<B>, F> ? never : F
}[keyof Static<B>]

/** How a version shows the rows of a collection. */
export interface ViewOptions<
  B extends TObject = TObject,
  Hidden extends string = string,
  Made extends string = never,
  Ids extends IdType = IdType,
> {
  /** New names of fields in this version: `{ reference: 'number' }` shows the field `reference` as `number`. */
  rename?: { readonly [F in FieldOf<B> | Made]?: string }
  /** Fields that the version does not have; a PUT or PATCH keeps their values. */
  hide?: readonly Hidden[]
  /** The values that a POST stores in fields that its body omits, as constants or pure functions. */
  defaults?: DefaultValues<B, object, string, Ids>
}

/** A hidden field that is required needs a default, here or in the collection. */
type NeededDefaults<B extends TObject, Given extends string, Hidden extends string> = [
  Exclude<Hidden & RequiredFieldOf<B>, Given>,
] extends [never]
  ? unknown
  : {
      defaults: {
        readonly [F in Exclude<Hidden & RequiredFieldOf<B>, Given>]: DefaultValue<
          NonNullable<Static<B>[F & keyof Static<B>]>
        >
      }
    }

/**
 * Declares how a version shows the rows of a collection: the same rows and revisions with other names. In that version,
 * the view replaces the collection. Throws a `DefinitionError` that lists the errors.
 */
export function view<
  B extends TObject,
  Computed extends string,
  Given extends string,
  Derived extends string,
  const Hidden extends FieldOf<B> | Computed | Derived = never,
  Ids extends IdType = 'integer',
>(
  of: Collection<B, Computed, Given, Derived, Ids>,
  options: ViewOptions<B, Hidden, Computed | Derived, NoInfer<Ids>> & NeededDefaults<B, Given, Hidden>,
): Collection {
  const errors = viewErrors(of, options)
  if (errors.length > 0) throw new DefinitionError(errors)
  return collectionOf(viewDeclaration(of.declaration as never, options as CheckedView))
}
