import type { TObject, TSchema } from 'typebox'
import { DefinitionError } from '../startup-errors.ts'
import { type ColumnKind, columnType, kindOf } from './column-types.ts'
import type { CollectionOperation, Declaration, ResourceOptions } from './declaration.ts'
import { inputOf } from './defaults.ts'
import { canSort, definitionErrors } from './definition-rules.ts'
import { columnName, withStorageRules } from './table.ts'

const everyOperation: readonly CollectionOperation[] = ['list', 'create', 'read', 'replace', 'patch', 'remove']

/**
 * The resources whose tables came with the first release; all others get a prefix, so that they cannot clash with service
 * tables.
 */
const firstTables = ['users', 'products', 'books']

/** Converts an author's options to a `Declaration`. Throws `DefinitionError`, which lists every error. */
export function defineResource<B extends TObject>(written: ResourceOptions<B>): Declaration {
  const options = written as unknown as ResourceOptions
  const mistakes = definitionErrors(options)
  if (mistakes.length > 0) throw new DefinitionError(mistakes)
  const { path, noun, publicRead = false, operations = everyOperation, body, listed, hides, links } = options
  const { filters = [], ranges = [], search = [], unique = [] } = options
  const name = path.slice(1)
  const properties = Object.entries(body.properties)
  const storable = withStorageRules(body)
  const kinds: Record<string, ColumnKind> = Object.fromEntries(
    properties.map(([field, schema]) => [field, kindOf(schema as TSchema) as ColumnKind]),
  )
  const sorts = sortsOf(options)
  const compared = new Set([...search, ...filters, ...sorts, ...unique])
  const folded = [...compared].filter((field) => columnType(kinds[field] as ColumnKind).folded)
  return Object.freeze({
    ...{ path, name, noun, operations, publicRead, filters, ranges, search, unique, links },
    ...((listed ?? hides) && { listed: listed ?? shownInLists(Object.keys(kinds), hides?.fields) }),
    ...(hides && { hides }),
    body: storable,
    input: inputOf(storable),
    kinds,
    table: firstTables.includes(name) ? name : `resource_${columnName(name).replaceAll('-', '_')}`,
    sorts: ['id', ...sorts, 'createdAt', 'updatedAt'],
    folded,
    blank: folded.filter((field) => sorts.includes(field) && !body.required?.includes(field)),
    scopes: scopesOf(name, publicRead, options.scopes),
    readScope: publicRead ? null : `${name}:read`,
  })
}

/** Fields to sort by: those declared, and every filter whose field is required. */
function sortsOf({ body, filters = [], sorts = [] }: ResourceOptions): string[] {
  const found = filters.filter((field) => body.required?.includes(field) && canSort(body.properties[field] as TSchema))
  return [...new Set([...sorts, ...found])]
}

/** Lists do not check the caller's rights, so fields hidden from some callers are in no list. */
const shownInLists = (fields: string[], hidden: readonly string[] = []): string[] => [
  'id',
  ...fields.filter((field) => !hidden.includes(field)),
  'createdAt',
  'updatedAt',
]

function scopesOf(name: string, publicRead: boolean, more: Readonly<Record<string, string>> = {}) {
  const things = name.replaceAll('-', ' ')
  return {
    ...(!publicRead && { [`${name}:read`]: `See ${things}` }),
    ...more,
    [`${name}:write`]: `Create, change and remove ${things}`,
  }
}
