import type { TObject } from 'typebox'
import type { Caller } from '../http/policies/authenticate.ts'
import type { IdOf, IdType } from '../storage/ids.ts'
import type { Row } from '../storage/rows/rows.ts'
import type { Access } from './access/rules.ts'
import type { ComputedOptions, DerivedOptions, DerivedSchemas } from './computed/options.ts'
import type { BodyOf, Condition, FieldsOf } from './conditions/condition.ts'
import type { DefaultValues, SetValues } from './constraints/creation.ts'
import type { Collection, CollectionOperation, Link } from './declaration.ts'
import type { KeepTime } from './deleted/keep-time.ts'
import type { MigrateOptions } from './migration/options.ts'
import type { IdsOf, RefDetails } from './relations/ref.ts'

/** The names of a body's fields. */
export type FieldOf<B extends TObject> = Extract<keyof B['properties'], string>

/** The options of `collection()`: the path of a resource, its fields and rules, and its HTTP operations. */
export interface ResourceOptions<
  B extends TObject = TObject,
  Claims = object,
  Role extends string = string,
  Computed extends string = string,
  Derived extends DerivedSchemas = DerivedSchemas,
  Ids extends IdType = IdType,
> {
  /**
   * The path, such as `/notes`; the name after the slash also determines the scopes (`notes:read`), the report and the
   * table.
   */
  path: `/${string}`
  /** The singular in camelCase, used in event types: `note` for `note.created`. */
  noun: string
  /**
   * The type of the ids: integers that the database assigns (the default), or UUIDs (version 7) that the service
   * assigns.
   */
  ids?: Ids
  /** The HTTP operations to serve; by default, all six. */
  operations?: readonly CollectionOperation[]
  /**
   * The body of create and replace; its fields are the columns of the table. A field's `default` is stored if a body
   * omits it.
   */
  body: B
  /** Allows reading without a scope and, unless the setting `publicRead` is false, without a token. */
  publicRead?: boolean
  /** Fields to filter by equality; text is compared without regard to case and Unicode form. */
  filters?: readonly (FieldOf<B> | NoInfer<Computed>)[]
  /** Fields to filter by range: numbers get parameters `minX` and `maxX`, dates and instants `xAfter` and `xBefore`. */
  ranges?: readonly (FieldOf<B> | NoInfer<Computed>)[]
  /** Text fields that `q` searches. */
  search?: readonly FieldOf<B>[]
  /**
   * Fields to sort by, besides id, createdAt, updatedAt and the required fields in `filters` whose values have an
   * order. They must be required or text; absent text sorts as an empty string.
   */
  sorts?: readonly (FieldOf<B> | NoInfer<Computed>)[]
  /**
   * Fields whose values must be unique, alone or together as in `[['tenant', 'email']]`; text is compared without
   * regard to case and Unicode form. An absent value equals no other.
   */
  unique?: readonly (FieldOf<B> | readonly [FieldOf<B>, FieldOf<B>, ...FieldOf<B>[]])[]
  /** The fields of a list item; by default, all fields that every caller can see. */
  listed?: readonly (
    | FieldOf<B>
    | NoInfer<Computed>
    | NoInfer<Extract<keyof Derived, string>>
    | 'id'
    | 'createdAt'
    | 'updatedAt'
  )[]
  /** Fields that only some callers see, and only in single resources; lists, reports and events never contain them. */
  hides?: { fields: readonly FieldOf<B>[]; unless: (caller: Caller, id: IdOf<Ids>) => boolean }
  /**
   * Who can read and write which rows, in addition to the scopes of a token. Rows then have `createdBy`; a request for
   * a row that the caller may not read gets a 404.
   */
  access?: Access<FieldsOf<B, Ids>, Claims, Role, RelatedFields<B, Ids>>
  /**
   * The rows that refuse PUT, PATCH and DELETE with 409: those whose stored values meet this condition, such as `{
   * status: 'paid' }` or `{ customer: { closed: true } }`. A change to a row can lock it, but no change to it can
   * unlock it.
   */
  locked?: Condition<FieldsOf<B, Ids> & { createdBy: string }, RelatedFields<B, Ids>>
  /**
   * Fields that bodies may contain, but that never appear in responses, lists, reports or events. A PUT that omits such
   * a field keeps its value.
   */
  writeOnly?: readonly FieldOf<B>[]
  /**
   * Fields that only a POST can set. A PUT or PATCH that would change such a field is refused, and a PUT that omits it
   * keeps its value.
   */
  immutable?: readonly FieldOf<B>[]
  /**
   * The values of fields in new rows, as constants or pure functions. Bodies cannot set the fields of `set`; `defaults`
   * apply to fields that a POST omits. A PUT that omits fields of either kind keeps their values.
   */
  set?: SetValues<B, Claims, Role, Ids>
  defaults?: DefaultValues<B, Claims, Role, Ids>
  /** Rules across fields, checked once each field is valid; a body that breaks a rule is rejected with 422. */
  rules?: readonly { field: FieldOf<B>; message: string; holds: (body: BodyOf<B, Ids>) => boolean }[]
  /**
   * Read-only fields that the service computes: conditions on the row, and sums and counts over the rows that refer to
   * it. Lists can be filtered by all of them and sorted by sums and counts.
   */
  computed?: ComputedOptions<B, Computed, Ids>
  /** Read-only fields that functions compute from a row, only for responses and events. */
  derived?: DerivedOptions<B, NoInfer<Computed>, Derived, Ids>
  /**
   * The name of the table; by default, derived from the path, such as `resource_notes` for `/notes`. An existing table
   * keeps its rows and its other columns.
   */
  table?: string
  /**
   * The column names of fields whose column is not named after the field, such as `{ title: 'book_title' }`; with
   * access rules, also the column name of `createdBy`.
   */
  columns?: { readonly [F in FieldOf<B> | 'createdBy']?: string }
  /**
   * How existing rows are migrated when the body changes: renamed fields, values of new fields, values of another type.
   */
  migrate?: MigrateOptions<B, Ids>
  /**
   * How long deleted rows can be restored, such as `'30 days'`, at most `'365 days'`. By default, a deletion is final.
   */
  keepDeleted?: KeepTime
  /** Scopes in addition to `read` and `write`, each with the description that users see. */
  scopes?: Readonly<Record<`${string}:${string}`, string>>
  links?: (row: Row<IdOf<Ids>>) => Record<string, Link>
}

/**
 * The relations in a body by name, such as `customer` for `customerId: Ref(customers)`, with the fields of the related
 * rows.
 */
export type RelatedFields<B extends TObject, Ids extends IdType = 'integer'> = {
  [Field in keyof B['properties'] as RelationName<Field, B>]: B['properties'][Field] extends {
    '~reference': RefDetails<infer To>
  }
    ? To extends Collection<infer Body>
      ? RowFields<Body, IdsOf<To>>
      : RowFields<B, Ids>
    : never
}

type RelationName<Field, B extends TObject> = Field extends keyof B['properties'] & `${infer Name}Id`
  ? B['properties'][Field] extends { '~reference': RefDetails }
    ? Name
    : never
  : never

/** The fields that access rules can name. */
type RowFields<B extends TObject, Ids extends IdType> = FieldsOf<B, Ids> & { createdBy: string }
