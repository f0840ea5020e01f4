import { type RawBuilder, sql } from 'kysely'
import { type Capacity, type Engine, errorField, type IdColumn } from '../engine.ts'
import { ScanRefused } from '../scans/scan.ts'
import { csvRecord } from './csv.ts'
import { half } from './exact-sum.ts'
import { sqliteTableSizes } from './table-sizes.ts'

/** Returns the arguments from which the functions in `exact-sum.ts` calculate the sum of a column. */
function halves(column: RawBuilder<unknown>) {
  const sumOf = (operator: string) => sql`coalesce(sum(${column} ${sql.raw(`${operator} ${half}`)}), 0)`
  return sql`${sumOf('/')}, ${sumOf('%')}`
}

/** Primary result codes: 5 BUSY, 6 LOCKED, 8 READONLY, 10 IOERR, 11 CORRUPT, 13 FULL, 14 CANTOPEN, 26 NOTADB. */
const sqliteUnavailable = new Set([5, 6, 8, 10, 11, 13, 14, 26])

/**
 * Since SQLite 3.51, `jsonb_each` returns elements in binary form, so that their members can be read without parsing.
 */
const eachElement = isAtLeast(process.versions.sqlite, 3, 51) ? 'jsonb_each' : 'json_each'

function isAtLeast(version: string | undefined, major: number, minor: number): boolean {
  const [actualMajor = 0, actualMinor = 0] = (version ?? '').split('.').map(Number)
  return actualMajor > major || (actualMajor === major && actualMinor >= minor)
}

/**
 * The affinity of a declared type; the first match decides
 * (https://sqlite.org/datatype3.html#determination_of_column_affinity).
 */
const affinities: readonly [RegExp, Capacity['holds']][] = [
  [/int/, 'integer'],
  [/char|clob|text/, 'text'],
  [/blob|^$/, 'other'],
  [/real|floa|doub/, 'number'],
]

const castTypes = { text: 'text', integer: 'integer', number: 'real', uuid: 'text' } as const

const numberedBy = (name: string): IdColumn => ({
  name,
  type: 'integer',
  define: (column) => column.primaryKey().autoIncrement(),
})
const integerId = numberedBy('id')

export const sqlite: Engine = {
  name: 'sqlite',
  commitsInOrder: true,
  identityType: 'integer',
  identity: integerId.define,
  overridingIdentity: sql``,
  keyType: sql`text`,
  uuidType: 'text',
  idColumns: {
    integer: [integerId],
    // VACUUM can change `rowid` unless a table declares it as a column. No field name begins with an underscore.
    uuid: [numberedBy('_row'), { name: 'id', type: 'text', define: (column) => column.notNull().unique() }],
  },
  now: sql`unixepoch('now', 'subsec') * 1000.0`,
  beforeMigration: [],
  indexedBy: (index) => sql`indexed by ${sql.ref(index)}`,
  statistics: {
    known: sql`select 1 from sqlite_master where name = 'sqlite_stat1'`,
    gather: ['pragma analysis_limit = 1000', 'analyze'],
  },
  // Hidden columns with the value 1 belong to virtual tables; generated columns have the values 2 and 3.
  columnsOf: (table) => sql`select name, lower(type) as type from pragma_table_xinfo(${table}) where hidden <> 1`,
  // Only an `integer primary key` has no index of its own: it is the row id, for which the engine generates values.
  detailsOf: (table) => sql`
    select name, lower(type) as "type", null as "length", "notnull" as "isRequired",
      dflt_value is not null as "hasDefault", hidden in (2, 3) as "isGenerated", 1 as "isBytewise",
      pk = 1 and lower(type) = 'integer' and (select max(pk) from pragma_table_xinfo(${table})) = 1
        and not exists (select 1 from pragma_index_list(${table}) where origin = 'pk') as "isIdentity"
    from pragma_table_xinfo(${table}) where hidden <> 1 order by cid`,
  capacityOf: (type) => ({ holds: affinities.find(([part]) => part.test(type))?.[1] ?? 'numeric' }),
  sortBytewise: () => [],
  indexesOf: (table) => sql`
    select list.name as name, list."unique" and list.partial = 0 as "unique",
      group_concat(info.name, ',' order by info.seqno) as columns
    from pragma_index_list(${table}) as list join pragma_index_info(list.name) as info
    group by list.name having count(*) = count(info.name)`,
  foreignKeysOf: (table) => sql`select "from" as "column", "table" from pragma_foreign_key_list(${table})`,
  // SQLite cannot change a column's constraints, so a new column replaces it.
  changeForeignKey: ({ table, column, constraint, references, type, dropIndexes, createIndexes }) => [
    `alter table "${table}" add column "${column}_new" ${type}${
      references === null ? '' : ` constraint "${constraint}" references "${references}" ("id")`
    }`,
    `update "${table}" set "${column}_new" = "${column}"`,
    ...dropIndexes,
    `alter table "${table}" drop column "${column}"`,
    `alter table "${table}" rename column "${column}_new" to "${column}"`,
    ...createIndexes,
  ],
  addsForeignKeys: false,
  renameForeignKey: () => [],
  appendOnly: (table) =>
    ['update', 'delete'].map(
      (change) =>
        `create trigger ${table}_no_${change} before ${change} on ${table}
         begin select raise(abort, '${table} is append-only'); end`,
    ),
  deletableUpTo: (table, column, expression) => [
    `drop trigger ${table}_no_delete`,
    `create trigger ${table}_no_delete before delete on ${table} when old.${column} > ${expression}
     begin select raise(abort, '${table} is append-only'); end`,
  ],
  jsonRows: (json) => sql`${sql.raw(eachElement)}(${json}) as json_each`,
  isAmong: (column, json) => sql`${column} in (select value from ${sql.raw(eachElement)}(${json}) as json_each)`,
  jsonCell: (json, path, type) =>
    sql`cast(${sql.join([json, ...path.map((name) => sql.lit(name))], sql` ->> `)} as ${sql.raw(castTypes[type])})`,
  jsonArray: (expression) => sql`json_group_array(${expression})`,
  // SQLite cannot write CSV; only the `sqlite3` shell can.
  csvFields: () => undefined,
  csvRecord,
  bytewise: (term) => term,
  // `sum` would overflow beyond 64 bits.
  exactSum: (column, scale) => sql`exact_sum(${halves(column)}, ${sql.raw(String(scale))})`,
  exactAverage: (column, scale) => sql`exact_average(${halves(column)}, count(${column}), ${sql.raw(String(scale))})`,
  // SQLite has only one writer at a time, so row locks are not needed.
  lockRows: sql``,
  lockRowsNow: sql``,
  lockFreeRows: sql``,
  lockKeys: sql``,
  lockForRemoval: sql``,
  unlogged: () => [],
  isDuplicate: (error) => [1555, 2067].includes(Number(errorField(error, 'errcode'))),
  duplicateColumns: (error) => String(errorField(error, 'message')).match(/(?<=[:,] \w+\.)\w+/g) ?? [],
  isUnavailable: (error) =>
    error instanceof ScanRefused ||
    errorField(error, 'syscall') === 'fdatasync' ||
    sqliteUnavailable.has(Number(errorField(error, 'errcode')) & 0xff),
  textSearch: {
    statements: [
      'create table search_indexes (name text primary key not null, token text not null, indexed_to integer not null)',
      `create table search_changes (
         change integer primary key autoincrement, name text not null, id integer not null, unique (name, id))`,
      'create index search_changes_change on search_changes (name, change)',
    ],
    errorMessage: 'Creating the tables of the text index failed',
  },
  // Calls a function defined in `scans/scan-thread.ts` for every 1024th row, so the cost is negligible.
  interruptible: (table) => sql`(${sql.ref(`${table}.rowid`)} & 1023 or scan_goes_on())`,
  tableSizes: sqliteTableSizes,
  // Writers wait for the lock on the file before their transaction begins, so no statement can time out on a lock.
  isLockTimeout: () => false,
  isRepeatable: null,
}
