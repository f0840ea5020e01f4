import { collectionOf } from '../resources/collection.ts'
import { withTotals } from '../resources/computed/total-columns.ts'
import type { Collection, Declaration } from '../resources/declaration.ts'
import { withStoredColumns } from '../resources/migration/stored-conditions.ts'
import { storedReport } from '../resources/reports/report.ts'
import { tableOf } from '../resources/table.ts'
import { viewDeclaration } from '../resources/views/view-declaration.ts'
import type { Queryable } from '../storage/database.ts'
import { readColumnNames } from '../storage/resource-tables/stored-names.ts'
import type { Definition } from './service.ts'

/**
 * Returns the definition with the actual column names from the database: a renamed field may still be stored under its
 * earlier column name. Returns the definition itself if every column is named after its field.
 */
export async function storedDefinition(db: Queryable, definition: Definition): Promise<Definition> {
  const names = await readColumnNames(db)
  if (names.size === 0) return definition
  // Conditions along relations refer to columns of other tables, so a renamed column can affect every collection except
  // users.
  const storedOne = (one: Collection) =>
    one.declaration.table === 'users' ? one : collectionOf(withStoredColumns(one.declaration, names))
  const stored = new Map(definition.collections.map((one) => [one.declaration, storedOne(one)]))
  const collectionsOf = (collections: readonly Collection[]) =>
    Object.freeze(collections.map((one) => stored.get(one.declaration) ?? storedView(one, stored)))
  const versions = Object.entries(definition.versions).map(([name, version]) => [
    name,
    Object.freeze({ ...version, collections: collectionsOf(version.collections) }),
  ])
  const collections = collectionsOf(definition.collections)
  const declarations = collections.map(({ declaration }) => declaration)
  const declarationAt = (path: string) => declarations.find((one) => one.path === path)
  return Object.freeze({
    ...definition,
    collections,
    typedReports: Object.freeze(
      definition.typedReports.map((one) => storedReport(one, declarationAt(one.of.path) ?? one.of)),
    ),
    versions: Object.freeze(Object.fromEntries(versions)),
    tables: Object.freeze(declarations.map((one) => withTotals(tableOf(one), one, declarations))),
  })
}

/** Returns a view with the actual column names of its collection; returns a collection that is not a view unchanged. */
function storedView(one: Collection, stored: ReadonlyMap<Declaration, Collection>): Collection {
  const { view } = one.declaration
  const own = view && stored.get(view.collection)
  return own ? collectionOf(viewDeclaration(own.declaration, view.options)) : one
}
