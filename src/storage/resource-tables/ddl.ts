import type { RawBuilder } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import type { ColumnKind, ResourceColumn, ResourceTable } from './resource-columns.ts'

/** The SQL type of each kind, the same on both engines. Booleans are stored as 1 or 0, JSON as its text. */
export const sqlTypes = {
  text: 'text',
  exact: 'text',
  instant: 'text',
  integer: 'bigint',
  number: 'double precision',
  boolean: 'smallint',
  json: 'text',
} as const satisfies Record<ColumnKind, string>

/** The column used by search, sort and uniqueness. */
export const comparedColumn = ({ name, folded }: Pick<ResourceColumn, 'name' | 'folded'>) =>
  folded ? `${name}_key` : name

/** Text that is compared exactly sorts by its bytes on both engines. */
const typeOf = ({ kind }: ResourceColumn, engine: Engine): (typeof sqlTypes)[ColumnKind] | RawBuilder<unknown> =>
  kind === 'exact' || kind === 'instant' ? engine.keyType : sqlTypes[kind]

/** The statements that create a table with its indexes. Required fields are enforced by the service, not by SQL. */
export function creationOf(tx: Queryable, engine: Engine, table: ResourceTable): string[] {
  let made = tx
    .withoutPlugins()
    .schema.createTable(table.name)
    .addColumn('id', engine.identityType, engine.identity)
    .addColumn('revision', 'integer', (c) => c.notNull())
    .addColumn('created_at', 'text', (c) => c.notNull())
    .addColumn('updated_at', 'text', (c) => c.notNull())
    .addColumn('shares_second', 'integer', (c) => c.notNull().defaultTo(0))
  for (const column of table.columns) {
    made = made.addColumn(column.name, typeOf(column, engine))
    if (column.folded) made = made.addColumn(`${column.name}_key`, engine.keyType)
  }
  const indexes = table.columns.flatMap((column) => indexOf(table.name, column))
  const times = ['created_at', 'updated_at'].map((name) => plainIndex(table.name, name))
  return [made.compile().sql, ...indexes, ...times]
}

/** The statement that adds a field's column. */
export const additionOf = (tx: Queryable, engine: Engine, table: string, column: ResourceColumn): string =>
  tx.withoutPlugins().schema.alterTable(table).addColumn(column.name, typeOf(column, engine)).compile().sql

/** The statement that adds the case-folded companion column of a field. */
export const keyAdditionOf = (tx: Queryable, engine: Engine, table: string, { name }: ResourceColumn): string =>
  tx.withoutPlugins().schema.alterTable(table).addColumn(`${name}_key`, engine.keyType).compile().sql

const plainIndex = (table: string, name: string) => `create index "${table}_${name}" on "${table}" ("${name}", "id")`

/** The statement for the index of a column: none, a unique one, or one for the keyset pages of lists. */
export function indexOf(table: string, column: ResourceColumn): string[] {
  const name = comparedColumn(column)
  if (column.unique) return [`create unique index "${table}_${name}" on "${table}" ("${name}")`]
  return column.indexed ? [plainIndex(table, name)] : []
}

/** The statements that rename a column and so preserve its data, outside the service's control. */
export function renameColumnStatements(
  table: string,
  { name, folded }: Pick<ResourceColumn, 'name' | 'folded'>,
): string[] {
  const key = [`drop index if exists "${table}_${name}_key"`, `alter table "${table}" drop column "${name}_key"`]
  return [
    ...(folded ? key : [`drop index if exists "${table}_${name}"`]),
    `alter table "${table}" rename column "${name}" to "${name}_old"`,
  ]
}
