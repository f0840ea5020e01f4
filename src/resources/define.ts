import type { TObject, TSchema } from 'typebox'
import { DefinitionError } from '../startup-errors.ts'
import type { IdType } from '../storage/ids.ts'
import type { ColumnNames } from '../storage/rows/column-names.ts'
import type { RelationStep } from '../storage/rows/row-test.ts'
import { declaredAccess } from './access/declared.ts'
import type { ClaimsOf } from './access/rules.ts'
import { type ColumnKind, columnType, kindOf } from './column-types.ts'
import { computedOf, ownConditionFields, shownOf } from './computed/computed-fields.ts'
import type { DerivedSchemas } from './computed/options.ts'
import { type CheckedValues, creationOf, withCreation, withoutSet } from './constraints/creation.ts'
import { inputOf } from './constraints/defaults.ts'
import { replacementOf, withKeptFields } from './constraints/kept-fields.ts'
import { declaredLock } from './constraints/lock-rules.ts'
import type { DeclaredLock } from './constraints/locked.ts'
import { withRules } from './constraints/rules.ts'
import { uniqueFields, uniqueTuples } from './constraints/unique.ts'
import type { Writers } from './constraints/writers.ts'
import type { CollectionOperation, Declaration } from './declaration.ts'
import { definitionErrors } from './definition-rules.ts'
import { keepTimeOf } from './deleted/keep-time.ts'
import { fileFieldsOf } from './files/file-field.ts'
import { canSort } from './queries/list-rules.ts'
import { referencesOf, refOf, withOwnReferences } from './relations/ref.ts'
import type { ResourceOptions } from './resource-options.ts'
import { tableName, withStorageRules } from './table.ts'

const allOperations: readonly CollectionOperation[] = ['list', 'create', 'read', 'replace', 'patch', 'remove']

const noClaims = () => ({})

/** What `plinth()` passes to a resource in addition to the options of `collection()`. */
export interface ResourceContext {
  /** The claims function passed to `plinth()`. */
  claims?: ClaimsOf<object>
  /** The users declared in `plinth()`; the claims function depends on them. */
  users?: object | undefined
  writers?: Writers
}

/**
 * Validates the options of `collection()` and fills in the defaults. Throws `DefinitionError`, which lists the errors.
 */
export function defineResource<
  B extends TObject,
  Claims extends object,
  Role extends string,
  Computed extends string,
  Derived extends DerivedSchemas,
  Ids extends IdType,
>(declared: ResourceOptions<B, Claims, Role, Computed, Derived, Ids>, context: ResourceContext = {}): Declaration<B> {
  const options = withOwnReferences(declared as unknown as ResourceOptions)
  const errors = definitionErrors(options)
  if (errors.length > 0) throw new DefinitionError(errors)
  const { path, noun, ids = 'integer', publicRead = false, operations = allOperations, body } = options
  const { listed, hides, links } = options
  const { writeOnly = [], immutable = [], rules = [], set = {}, defaults = {} } = options
  const concealed = [...writeOnly, ...(hides?.fields ?? [])]
  const { filters = [], ranges = [], search = [] } = options
  const [unique, tuples] = [uniqueFields(options.unique), uniqueTuples(options.unique)]
  const name = path.slice(1)
  const storable = withStorageRules(withCreation(withRules(withKeptFields(options), rules), set))
  const kinds = kindsOf(body)
  const overTable = tableNames(name, options)
  const shown = shownOf(storable, kinds, options)
  const sorts = sortsOf(options, shown.shownBody)
  const { folded, blank } = companionsOf(body, shown.shownKinds, sorts, [search, filters, sorts, unique, ...tuples])
  return Object.freeze({
    ...{ path, name, noun, ids, operations, publicRead, filters, ranges, search, unique, tuples, links },
    ...{ writeOnly, immutable, concealed, rules, set, defaults, claims: context.claims ?? noClaims },
    ...((listed ?? concealed.length > 0) && {
      listed: listed ?? visibleFields(Object.keys(shown.shownBody.properties), concealed, options.access),
    }),
    ...{ ...(hides && { hides }), ...(options.migrate && { migrate: options.migrate }) },
    ...(options.keepDeleted !== undefined && { keepDeletedMs: keepTimeOf(options.keepDeleted) }),
    ...{ writers: context.writers, users: context.users },
    ...shown,
    ...overTable,
    ...conditionsOf(options, context, { body, kinds, folded, blank, ...overTable, ids }),
    body: storable as B,
    ...inputsOf(storable, set, defaults, [...writeOnly, ...immutable, ...Object.keys(defaults)]),
    files: fileFieldsOf(body),
    kinds,
    references: referencesOf(body, { path, noun, table: overTable.table }),
    sorts: ['id', ...sorts, 'createdAt', 'updatedAt'],
    folded,
    blank,
    scopes: scopesOf(name, publicRead, options.scopes),
    readScope: publicRead ? null : `${name}:read`,
  })
}

/** Returns the table and column names; `overlay` is set if the declaration specifies a table or columns. */
function tableNames(name: string, { table, columns }: Pick<ResourceOptions, 'table' | 'columns'>) {
  const names = columns as ColumnNames | undefined
  return {
    table: table ?? tableName(name),
    ...(names && { columns: names }),
    ...((table !== undefined || names) && { overlay: names ?? {} }),
  }
}

/** Returns the column type of each field in a valid body. */
const kindsOf = ({ properties }: TObject): Record<string, ColumnKind> =>
  Object.fromEntries(
    Object.entries(properties).map(([field, schema]) => [field, kindOf(schema as TSchema) as ColumnKind]),
  )

/** Returns the parts of a declaration that contain conditions: access rules, the lock and computed fields. */
function conditionsOf(options: ResourceOptions, context: ResourceContext, own: Parameters<typeof declaredAccess>[2]) {
  const fields = ownConditionFields(own, options.access !== undefined)
  const access = options.access && declaredAccess(options.access, context, own)
  const of = access && 'of' in access ? lockOf(access.of, own.body) : undefined
  return {
    ...(access && { access }),
    ...declaredLock(options.locked, { declaration: own, fields }, of),
    computed: computedOf(options, fields),
  }
}

/** Returns the lock that a row inherits through this reference; undefined if the rows it refers to are never locked. */
function lockOf(step: RelationStep, body: TObject): DeclaredLock['of'] {
  const to = refOf(body.properties[step.on.field] as TSchema)?.to
  const locked = to === undefined || to === 'self' ? undefined : to.declaration.locked
  return locked && { step, locked }
}

/** Returns the schemas of the bodies that clients send; a PUT may omit the fields whose values it keeps. */
function inputsOf(body: TObject, set: CheckedValues, defaults: CheckedValues, kept: readonly string[]) {
  const input = inputOf(body)
  const unsent = { ...set, ...Object.fromEntries(fileFieldsOf(body).map(({ field }) => [field, undefined])) }
  return {
    input,
    patchable: withoutSet(input, unsent),
    creation: creationOf(input, unsent, defaults),
    replacement: withoutSet(replacementOf(input, kept), unsent),
  }
}

/**
 * Returns the fields with a case-folded companion column, and the optional sort fields among them: in rows without a
 * value, their companion column contains an empty string, not null.
 */
function companionsOf(
  body: TObject,
  kinds: Readonly<Record<string, ColumnKind>>,
  sorts: readonly string[],
  lists: readonly (readonly string[])[],
) {
  const folded = [...new Set(lists.flat())].filter((field) => columnType(kinds[field] as ColumnKind).folded)
  return { folded, blank: folded.filter((field) => sorts.includes(field) && !body.required?.includes(field)) }
}

/** Returns the fields to sort by: those declared, and every required filter field whose values have an order. */
function sortsOf({ filters = [], sorts = [] }: ResourceOptions, shown: TObject): string[] {
  const fromFilters = filters.filter(
    (field) => shown.required?.includes(field) && canSort(shown.properties[field] as TSchema),
  )
  return [...new Set([...sorts, ...fromFilters])]
}

/**
 * Returns the fields of list items: all except write-only fields and fields hidden from some callers, because items
 * have the same fields for every caller.
 */
const visibleFields = (fields: string[], concealed: readonly string[], access: unknown): string[] => [
  'id',
  ...fields.filter((field) => !concealed.includes(field)),
  ...['createdAt', 'updatedAt', ...(access ? ['createdBy'] : [])],
]

function scopesOf(name: string, publicRead: boolean, more: Readonly<Record<string, string>> = {}) {
  const plural = name.replaceAll('-', ' ')
  return {
    ...(!publicRead && { [`${name}:read`]: `See ${plural}` }),
    ...more,
    [`${name}:write`]: `Create, change and delete ${plural}`,
  }
}
