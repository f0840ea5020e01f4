import { type TObject, type TSchema, Type } from 'typebox'
import { DefinitionError } from '../startup-errors.ts'
import type { ClaimsOf, DeclaredAccess } from './access/rules.ts'
import { type ColumnKind, columnType, kindOf } from './column-types.ts'
import { type ConditionDeclaration, type ConditionField, conditionFields } from './conditions/fields.ts'
import type { CollectionOperation, Declaration, ResourceOptions } from './declaration.ts'
import { inputOf } from './defaults.ts'
import { canSort, definitionErrors } from './definition-rules.ts'
import { referencesOf } from './relations/ref.ts'
import { columnName, withStorageRules } from './table.ts'

const allOperations: readonly CollectionOperation[] = ['list', 'create', 'read', 'replace', 'patch', 'remove']

/**
 * Tables of the first release, which have no prefix; all others have one, so that they cannot clash with tables of the
 * service.
 */
const unprefixedTables = ['users', 'products', 'books']

/** Validates the options of `collection()` and fills in the defaults. Throws `DefinitionError`, which lists every error. */
export function defineResource<B extends TObject, Claims extends object>(
  declared: ResourceOptions<B, Claims>,
  claims: ClaimsOf<object> = () => ({}),
): Declaration<B> {
  const options = declared as unknown as ResourceOptions
  const errors = definitionErrors(options)
  if (errors.length > 0) throw new DefinitionError(errors)
  const { path, noun, publicRead = false, operations = allOperations, body, listed, hides, links } = options
  const { filters = [], ranges = [], search = [], unique = [] } = options
  const name = path.slice(1)
  const properties = Object.entries(body.properties)
  const storable = withStorageRules(body)
  const kinds: Record<string, ColumnKind> = Object.fromEntries(
    properties.map(([field, schema]) => [field, kindOf(schema as TSchema) as ColumnKind]),
  )
  const table = unprefixedTables.includes(name) ? name : `resource_${columnName(name).replaceAll('-', '_')}`
  const sorts = sortsOf(options)
  const compared = new Set([...search, ...filters, ...sorts, ...unique])
  const folded = [...compared].filter((field) => columnType(kinds[field] as ColumnKind).folded)
  const blank = folded.filter((field) => sorts.includes(field) && !body.required?.includes(field))
  return Object.freeze({
    ...{ path, name, noun, operations, publicRead, filters, ranges, search, unique, links },
    ...((listed ?? hides) && { listed: listed ?? visibleFields(Object.keys(kinds), hides?.fields) }),
    ...(hides && { hides }),
    ...(options.access && { access: declaredAccess(options.access, claims, { body, kinds, folded, blank }) }),
    body: storable as B,
    input: inputOf(storable),
    kinds,
    references: referencesOf(body, { path, noun, table }),
    table,
    sorts: ['id', ...sorts, 'createdAt', 'updatedAt'],
    folded,
    blank,
    scopes: scopesOf(name, publicRead, options.scopes),
    readScope: publicRead ? null : `${name}:read`,
  })
}

/** The rules of an `access` option, with the fields that their conditions can name. */
function declaredAccess(
  access: NonNullable<ResourceOptions['access']>,
  claims: ClaimsOf<object>,
  declaration: ConditionDeclaration,
): DeclaredAccess {
  const { read, write } = typeof access === 'function' ? { read: access, write: access } : access
  const createdBy: ConditionField = {
    ...{ kind: 'exact', schema: Type.String() },
    on: { field: 'createdBy', column: 'created_by', sortsByBytes: true },
  }
  return Object.freeze({ read, write, claims, fields: { ...conditionFields(declaration, 'letters'), createdBy } })
}

/** Fields to sort by: those declared, and every required field to filter by. */
function sortsOf({ body, filters = [], sorts = [] }: ResourceOptions): string[] {
  const fromFilters = filters.filter(
    (field) => body.required?.includes(field) && canSort(body.properties[field] as TSchema),
  )
  return [...new Set([...sorts, ...fromFilters])]
}

/** List items never contain fields hidden from some callers, because lists do not check who is calling. */
const visibleFields = (fields: string[], hidden: readonly string[] = []): string[] => [
  'id',
  ...fields.filter((field) => !hidden.includes(field)),
  'createdAt',
  'updatedAt',
]

function scopesOf(name: string, publicRead: boolean, more: Readonly<Record<string, string>> = {}) {
  const plural = name.replaceAll('-', ' ')
  return {
    ...(!publicRead && { [`${name}:read`]: `See ${plural}` }),
    ...more,
    [`${name}:write`]: `Create, change and delete ${plural}`,
  }
}
