import { type CreateTableBuilder, type RawBuilder, sql as sqlText } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { caseFold } from '../rows/page-query.ts'
import { idsOf, type ResourceColumn, type ResourceTable, type SqlType, type UniqueTuple } from './resource-columns.ts'

/**
 * Returns the column used to search, sort and enforce uniqueness: the case-folded companion column if the field has
 * one.
 */
export const comparedColumn = ({ name, folded }: Pick<ResourceColumn, 'name' | 'folded'>) =>
  folded ? `${name}_key` : name

/** The SQL type to which the text of an id is cast. */
export const idTypeOf = (engine: Engine, table: Pick<ResourceTable, 'ids'>) =>
  sqlText.raw(idsOf(table) === 'uuid' ? engine.uuidType : 'integer')

/** Returns the name of a column's type, as in `columnsOf` and in casts. */
export const typeNameOf = ({ sql }: Pick<ResourceColumn, 'sql'>, engine: Engine): Exclude<SqlType, 'key'> =>
  sql === 'key' ? 'text' : sql === 'uuid' ? engine.uuidType : sql

const sqlTypeOf = (column: ResourceColumn, engine: Engine): Exclude<SqlType, 'key'> | RawBuilder<unknown> =>
  column.sql === 'key' ? engine.keyType : typeNameOf(column, engine)

/** Returns the type of a field's column, including its foreign key if it has one. */
function definitionOf(engine: Engine, table: string, column: ResourceColumn): ReturnType<typeof sqlTypeOf> {
  const { name, references } = column
  if (references === undefined) return sqlTypeOf(column, engine)
  const constraint = sqlText.ref(constraintName(table, name))
  return sqlText`${sqlText.raw(typeNameOf(column, engine))} constraint ${constraint} references ${sqlText.ref(references)} ("id")`
}

/** Returns the name of a column's foreign key. */
export const constraintName = (table: string, column: string) => `${table}_${column}_ref`

/** Returns the statements that create a table and its indexes. The service enforces required fields; SQL does not. */
export function createTableStatements(tx: Queryable, engine: Engine, table: ResourceTable): string[] {
  let create = tx.withoutPlugins().schema.createTable(table.name) as CreateTableBuilder<string, string>
  for (const { name, type, define } of engine.idColumns[idsOf(table)]) create = create.addColumn(name, type, define)
  create = create
    .addColumn('revision', 'integer', (c) => c.notNull())
    .addColumn('created_at', 'text', (c) => c.notNull())
    .addColumn('updated_at', 'text', (c) => c.notNull())
    .addColumn('shares_second', 'integer', (c) => c.notNull().defaultTo(0))
  for (const column of table.columns) {
    create = create.addColumn(column.name, definitionOf(engine, table.name, column))
    if (column.folded) create = create.addColumn(`${column.name}_key`, engine.keyType)
  }
  const indexes = table.columns.flatMap((column) => indexStatements(table.name, column))
  const tuples = (table.tuples ?? []).map((tuple) => uniqueTupleStatement(table.name, tuple))
  const times = ['created_at', 'updated_at'].map((name) => createIndexStatement(table.name, name))
  return [create.compile().sql, ...indexes, ...tuples, ...times]
}

/**
 * Returns the statement that adds a field's column, with the `constant` (if there is one) as the value of existing
 * rows.
 */
export function addColumnStatement(
  tx: Queryable,
  engine: Engine,
  table: string,
  column: ResourceColumn,
  constant?: string | number,
): string {
  const isText = column.sql === 'text' || column.sql === 'key'
  const literal = sqlText.lit(isText ? String(constant) : Number(constant))
  // The constant of a decimal is text, because it may have more digits than a JavaScript number can represent.
  const value = !isText && typeof constant === 'string' ? sqlText.raw(constant) : literal
  return tx
    .withoutPlugins()
    .schema.alterTable(table)
    .addColumn(column.name, definitionOf(engine, table, column), (c) =>
      constant === undefined ? c : c.defaultTo(value),
    )
    .compile().sql
}

/** Returns the statement that adds a bookkeeping column, with a value for existing rows. */
export const addSystemColumnStatement = (
  tx: Queryable,
  table: string,
  { name, type }: { name: string; type: 'integer' | 'text' },
  value: string | number,
): string =>
  tx
    .withoutPlugins()
    .schema.alterTable(table)
    .addColumn(name, type, (c) => c.notNull().defaultTo(sqlText.lit(value)))
    .compile().sql

/** Returns the statement that adds a field's case-folded companion column. */
export const addKeyColumnStatement = (
  tx: Queryable,
  engine: Engine,
  table: string,
  { name }: ResourceColumn,
  constant?: string,
): string =>
  tx
    .withoutPlugins()
    .schema.alterTable(table)
    .addColumn(`${name}_key`, engine.keyType, (c) =>
      constant === undefined ? c : c.defaultTo(sqlText.lit(caseFold(constant))),
    )
    .compile().sql

export const createIndexStatement = (table: string, name: string) =>
  `create index "${table}_${name}" on "${table}" ("${name}", "id")`

/**
 * Returns the statements for a column's indexes: a unique index or one for keyset pagination, and one on the exact
 * text.
 */
export const indexStatements = (table: string, column: ResourceColumn): string[] => [
  ...comparedIndexStatements(table, column),
  ...exactIndexStatements(table, column),
]

export function comparedIndexStatements(table: string, column: ResourceColumn): string[] {
  const name = comparedColumn(column)
  if (column.unique) return [`create unique index "${table}_${name}" on "${table}" ("${name}")`]
  return column.indexed ? [createIndexStatement(table, name)] : []
}

export const exactIndexStatements = (table: string, { name, exact }: ResourceColumn): string[] =>
  exact ? [createIndexStatement(table, name)] : []

/**
 * Returns the statement for the index on fields that are unique together. Both engines treat rows with a null as
 * distinct.
 */
export const uniqueTupleStatement = (
  table: string,
  { index, columns }: Pick<UniqueTuple, 'index' | 'columns'>,
): string => `create unique index "${index}" on "${table}" (${columns.map((column) => `"${column}"`).join(', ')})`

export const dropIndexStatement = (index: string): string => `drop index if exists "${index}"`

/**
 * Returns the statements that rename a column, which keeps its data but hides it from the service. `tuples` are the
 * unique multi-column indexes that include the column, and `type` is its type in the database.
 */
export function renameColumnStatements(
  table: string,
  { name, folded, exact, references }: Pick<ResourceColumn, 'name' | 'folded' | 'exact' | 'references'>,
  { tuples, type }: { tuples: readonly string[]; type: string | undefined },
): string[] {
  const dropTuples = tuples.map(dropIndexStatement)
  if (references !== undefined) return [...dropTuples, ...copyColumnStatements(table, name, type ?? 'bigint')]
  const dropKey = [dropIndexStatement(`${table}_${name}_key`), `alter table "${table}" drop column "${name}_key"`]
  return [
    ...tuples.map(dropIndexStatement),
    ...(folded ? dropKey : []),
    ...(folded && !exact ? [] : [dropIndexStatement(`${table}_${name}`)]),
    `alter table "${table}" rename column "${name}" to "${name}_old"`,
  ]
}

/**
 * Returns the statements that copy a reference to a column without a foreign key. Renaming the column would not remove
 * its foreign key.
 */
const copyColumnStatements = (table: string, name: string, type: string): string[] => [
  `alter table "${table}" add column "${name}_old" ${type}`,
  `update "${table}" set "${name}_old" = "${name}"`,
  `drop index if exists "${table}_${name}"`,
  `alter table "${table}" drop column "${name}"`,
]
