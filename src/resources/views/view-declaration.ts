import { hash } from 'node:crypto'
import type { TObject } from 'typebox'
import { columnOfField, snake } from '../../storage/rows/column-names.ts'
import type { Row } from '../../storage/rows/rows.ts'
import { amended } from '../column-types.ts'
import type { DeclaredComputed } from '../computed/options.ts'
import { creationOf, withoutSet } from '../constraints/creation.ts'
import { replacementOf } from '../constraints/kept-fields.ts'
import type { Rule } from '../constraints/rules.ts'
import type { Declaration } from '../declaration.ts'
import { relationName } from '../relations/reference.ts'
import { type FieldChanges, type FieldNames, fieldNames } from './field-names.ts'
import { viewWriters } from './view-parts.ts'

/** The options of a view, after validation. */
export interface CheckedView extends FieldChanges {
  defaults?: Readonly<Record<string, unknown>> | undefined
}

/** Makes every member required, so that the compiler reports a member that a view's declaration lacks. */
type Members = { [Name in keyof Required<Declaration>]: Declaration[Name] }

/**
 * Returns the declaration of a view: the collection's declaration with other names. Schemas, queries, documents and
 * errors are derived from it. Hidden fields are still stored. Like write-only fields, they keep their values in a PUT;
 * like the fields of `set`, they cannot appear in bodies.
 */
export function viewDeclaration(own: Declaration, options: CheckedView): Declaration {
  const names = fieldNames(Object.keys(own.shownBody.properties), options)
  const { memberOf, hidden, toOwn } = names
  const { links, operations, publicRead, scopes, readScope, access, locked, claims, users, writers } = own
  const declared: Members = {
    ...{ path: own.path, name: own.name, noun: own.noun, table: own.table, ids: own.ids },
    ...{ operations, publicRead, scopes, readScope, access, locked, claims, users },
    writers: writers && viewWriters(writers, names),
    ...bodiesOf(own, options, names),
    ...listsOf(own, names),
    columns: columnsOf(own, names),
    overlay: own.overlay,
    // A view never migrates: its table is migrated with the collection.
    migrate: undefined,
    kinds: keyed(own.kinds, memberOf),
    shownKinds: keyed(own.shownKinds, memberOf),
    computed: computedIn(own.computed, memberOf),
    references: own.references.map((reference) => {
      const field = memberOf(reference.field)
      return { ...reference, field, name: relationName(field) }
    }),
    keepDeletedMs: own.keepDeletedMs,
    hides: own.hides && { ...own.hides, fields: own.hides.fields.map(memberOf) },
    immutable: own.immutable.map(memberOf),
    files: own.files.map((file) => ({ ...file, field: memberOf(file.field) })),
    concealed: [...own.concealed.map(memberOf), ...hidden],
    rules: own.rules.map((rule) => renamedRule(rule, names)),
    links: links && ((row) => links(toOwn(row) as Row)),
    view: { ...names, collection: own, options, tag: tagOf(options) },
  }
  return Object.freeze(declared) as Declaration
}

const keyed = <V>(values: Readonly<Record<string, V>>, nameOf: (field: string) => string): Record<string, V> =>
  Object.fromEntries(Object.entries(values).map(([field, value]) => [nameOf(field), value]))

/** Returns the columns of the members that are not named after their column; undefined if there are none. */
function columnsOf({ shownKinds, columns }: Declaration, { memberOf }: FieldNames) {
  const stored = Object.keys(shownKinds).map((field) => [memberOf(field), columnOfField(field, columns)] as const)
  if (columns?.createdBy !== undefined) stored.push(['createdBy', columns.createdBy])
  const other = stored.filter(([member, column]) => snake(member) !== column)
  return other.length > 0 ? Object.fromEntries(other) : undefined
}

/** Renames the computed and derived fields; their conditions and functions keep the names of the collection. */
const computedIn = (own: DeclaredComputed, memberOf: FieldNames['memberOf']): DeclaredComputed => ({
  whens: keyed(own.whens, memberOf),
  totals: own.totals.map((total) => ({ ...total, name: memberOf(total.name) })),
  derived: keyed(own.derived, memberOf),
  initial: keyed(own.initial, memberOf),
  usesToday: own.usesToday,
})

/** Returns the body schemas of a view, its `set` and `defaults`, and its write-only fields. */
function bodiesOf(own: Declaration, options: CheckedView, names: FieldNames) {
  const { memberOf, hidden, toShown } = names
  const set = keyed(own.set, memberOf)
  const defaults = keyed({ ...own.defaults, ...options.defaults }, memberOf)
  const writeOnly = [...own.writeOnly.map(memberOf), ...hidden]
  const input = renamedSchema(own.input, names, toShown)
  const unsendable = [...hidden, ...own.files.map(({ field }) => memberOf(field))]
  const unsent = { ...set, ...Object.fromEntries(unsendable.map((member) => [member, undefined])) }
  const kept = [...writeOnly, ...own.immutable.map(memberOf), ...Object.keys(defaults)]
  return {
    // Examples include the values of hidden fields, because links may use them.
    body: renamedSchema(own.body, names, (example) => keyed(example, memberOf)),
    shownBody: renamedSchema(own.shownBody, names, (example) => keyed(example, memberOf)),
    input,
    creation: creationOf(input, unsent, defaults),
    replacement: withoutSet(replacementOf(input, kept), unsent),
    patchable: withoutSet(input, unsent),
    ...{ set, defaults, writeOnly },
  }
}

/** Returns the lists of fields. Lists for queries and list items omit hidden fields; lists for storage include them. */
function listsOf(own: Declaration, { memberOf, hidden }: FieldNames) {
  const named = (list: readonly string[]) => list.map(memberOf)
  const shown = (list: readonly string[]) => named(list).filter((member) => !hidden.includes(member))
  const visible = Object.keys(own.shownBody.properties).filter((field) => !own.concealed.includes(field))
  const always = ['createdAt', 'updatedAt', ...(own.access ? ['createdBy'] : [])]
  const listed = own.listed ?? (hidden.length > 0 ? ['id', ...visible, ...always] : undefined)
  return {
    filters: shown(own.filters),
    ranges: shown(own.ranges),
    search: shown(own.search),
    sorts: shown(own.sorts),
    listed: listed && shown(listed),
    unique: named(own.unique),
    tuples: own.tuples.map(named),
    folded: named(own.folded),
    blank: named(own.blank),
  }
}

/** Returns a body schema with the names of the view. */
function renamedSchema(schema: TObject, { memberOf }: FieldNames, renamed: FieldNames['toShown']): TObject {
  const { examples } = schema as { examples?: readonly Record<string, unknown>[] }
  const properties = Object.entries(schema.properties).map(([field, property]) => [memberOf(field), property])
  return amended(schema, {
    properties: Object.fromEntries(properties),
    ...(schema.required && { required: schema.required.map(memberOf) }),
    ...(examples && { examples: examples.map(renamed) }),
  })
}

/** Returns a rule for the bodies of the view; its function receives the collection's names. */
const renamedRule = ({ field, message, holds }: Rule, { memberOf, hidden, toOwn }: FieldNames): Rule => ({
  field: memberOf(field),
  message: hidden.includes(memberOf(field)) ? `${message} (a field that this version does not have)` : message,
  holds: (body) => holds(toOwn(body) as never),
})

/** Returns the tag of a view's representations; views with the same renamed and hidden fields have the same tag. */
const tagOf = ({ rename = {}, hide = [] }: CheckedView): string =>
  hash('sha256', JSON.stringify([Object.entries(rename).toSorted(), hide.toSorted()]), 'hex').slice(0, 8)
