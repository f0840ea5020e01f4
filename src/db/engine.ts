import { type ColumnDefinitionBuilder, type RawBuilder, sql } from 'kysely'
import type { CellType } from './long-read.ts'
import { csvFields } from './postgres-csv.ts'
import { ScanRefused } from './scan.ts'
import { csvRecord } from './sqlite-csv.ts'

/** Every difference between the two database engines, as data. Callers never ask which engine they run on. */
export interface Engine {
  name: 'sqlite' | 'postgres'
  /** Column type of an integer key that the engine assigns and never gives out twice. */
  identityType: 'integer'
  identity: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder
  /** Column type of folded text: compares by bytes, so that both engines sort alike. */
  keyType: RawBuilder<unknown>
  /** The database's clock, in milliseconds since the epoch, whenever the transaction began. */
  now: RawBuilder<number>
  /** Run first by a migration: no limits on its time, and one process at a time. */
  beforeMigration: readonly string[]
  /**
   * After a migration: the statements that gather anew what the planner knows of each index, and a query that finds a row
   * where it knows something. It must know all of them or none: an index it knows nothing of would look better than it is.
   */
  statistics: { known: RawBuilder<unknown>; gather: readonly string[] }
  /**
   * Behind the name of a table: read it by this index and no other. SQLite, which counts no rows by itself, takes any that
   * looks alike; PostgreSQL chooses by what it counted.
   */
  indexedBy: (index: string) => RawBuilder<unknown>
  /** The columns of a table with their types, and its indexes by their first column. No rows without the table. */
  columnsOf: (table: string) => RawBuilder<{ name: string; type: string }>
  indexesOf: (table: string) => RawBuilder<{ column: string; unique: boolean | number }>
  /** Statements after which rows of a table can be added and read, but neither changed nor removed. */
  appendOnly: (table: string) => readonly string[]
  /** The elements of a JSON array, given as text, as rows whose one column is `value`; `value ->> 0` reads on both. */
  jsonRows: (json: string) => RawBuilder<{ value: string }>
  /** The values of an expression over all rows, as the text of a JSON array; null, or an empty one, without rows. */
  jsonArray: (expression: RawBuilder<unknown>) => RawBuilder<string | null>
  /** What the engine's own writer of CSV is to be given for the cells of a row; undefined where it would not do. */
  csvFields: (cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) => RawBuilder<unknown>[] | undefined
  /** A row as a record of CSV in one text, and what of it is still to be looked at; undefined where that is no faster. */
  csvRecord: (
    cells: readonly { cell: RawBuilder<unknown>; type: CellType }[],
  ) => { record: RawBuilder<unknown>; looked: RawBuilder<unknown> } | undefined
  /** Behind a select: keeps others from changing its rows until the end of the transaction; `free` passes over held ones. */
  lockRows: RawBuilder<unknown>
  lockFreeRows: RawBuilder<unknown>
  /** Statements after which a table is quick to write and may be empty after a crash of the database. */
  unlogged: (table: string) => readonly string[]
  /** True when an error says that a unique index already holds the value. */
  isDuplicate: (error: unknown) => boolean
  /** The column whose value another row has already, of such an error; undefined when it does not say. */
  duplicateColumn: (error: unknown) => string | undefined
  /** True when an error says that the store cannot take work now: full, locked, unreachable. */
  isUnavailable: (error: unknown) => boolean
  /** Statements that the indexes of text need to have been run, and what to do where they cannot be. */
  textSearch: { statements: readonly string[]; otherwise: string }
  /** A condition that always holds, of a scan of this table: with it the statement ends soon after its time limit. */
  interruptible: (table: string) => RawBuilder<boolean>
  /** True when an error says that another transaction held a row for too long. */
  isLockTimeout: (error: unknown) => boolean
}

const field = (error: unknown, name: string): unknown =>
  typeof error === 'object' && error !== null ? (error as Record<string, unknown>)[name] : undefined

/** Primary result codes: 5 BUSY, 6 LOCKED, 8 READONLY, 10 IOERR, 13 FULL, 14 CANTOPEN. */
const sqliteUnavailable = new Set([5, 6, 8, 10, 13, 14])

/** Where SQLite has it, elements come in a form whose parts are found without reading their text once more. */
const eachElement = isAtLeast(process.versions.sqlite, 3, 51) ? 'jsonb_each' : 'json_each'

function isAtLeast(version: string | undefined, major: number, minor: number): boolean {
  const [ours = 0, its = 0] = (version ?? '').split('.').map(Number)
  return ours > major || (ours === major && its >= minor)
}

export const sqlite: Engine = {
  name: 'sqlite',
  identityType: 'integer',
  identity: (column) => column.primaryKey().autoIncrement(),
  keyType: sql`text`,
  now: sql`unixepoch('now', 'subsec') * 1000.0`,
  beforeMigration: [],
  indexedBy: (index) => sql`indexed by ${sql.ref(index)}`,
  statistics: {
    known: sql`select 1 from sqlite_master where name = 'sqlite_stat1'`,
    gather: ['pragma analysis_limit = 1000', 'analyze'],
  },
  columnsOf: (table) => sql`select name, lower(type) as type from pragma_table_info(${table})`,
  indexesOf: (table) => sql`
    select info.name as "column", list."unique" and list.partial = 0
      and not exists (select 1 from pragma_index_info(list.name) where seqno = 1) as "unique"
    from pragma_index_list(${table}) as list join pragma_index_info(list.name) as info on info.seqno = 0`,
  appendOnly: (table) =>
    ['update', 'delete'].map(
      (change) =>
        `create trigger ${table}_no_${change} before ${change} on ${table}
         begin select raise(abort, '${table} is append-only'); end`,
    ),
  jsonRows: (json) => sql`${sql.raw(eachElement)}(${json}) as json_each`,
  jsonArray: (expression) => sql`json_group_array(${expression})`,
  // It has none but that of its command line.
  csvFields: () => undefined,
  csvRecord,
  // One writer at a time: nobody else holds anything.
  lockRows: sql``,
  lockFreeRows: sql``,
  unlogged: () => [],
  isDuplicate: (error) => [1555, 2067].includes(Number(field(error, 'errcode'))),
  duplicateColumn: (error) => /: \w+\.(\w+)$/.exec(String(field(error, 'message')))?.[1],
  isUnavailable: (error) =>
    error instanceof ScanRefused || sqliteUnavailable.has(Number(field(error, 'errcode')) & 0xff),
  textSearch: {
    statements: [
      'create table search_indexes (name text primary key not null, token text not null, indexed_to integer not null)',
      `create table search_changes (
         change integer primary key autoincrement, name text not null, id integer not null, unique (name, id))`,
      'create index search_changes_change on search_changes (name, change)',
    ],
    otherwise: 'The tables of the search index could not be created',
  },
  // Asked of one row in a thousand, so that it costs nothing to speak of (`scan-thread.ts`).
  interruptible: (table) => sql`(${sql.ref(`${table}.rowid`)} & 1023 or scan_goes_on())`,
  // Writers wait for the whole file, before their transaction begins.
  isLockTimeout: () => false,
}

/** Class 08 connection, 53 resources, 57P shutdown, 55P03 lock, 57014 timeout; and the socket's own errors. */
const postgresUnavailable =
  /^(08|53|57P)|^(55P03|57014|25006|40001|40P01)$|^E(CONN|PIPE|TIMEDOUT|HOSTUNREACH|NOTFOUND|AI_AGAIN)/

/** Any number, the same on every node. */
const migrationLock = 5_470_112

export const postgres: Engine = {
  name: 'postgres',
  identityType: 'integer',
  identity: (column) => column.primaryKey().generatedAlwaysAsIdentity(),
  keyType: sql`text collate "C"`,
  now: sql`cast(extract(epoch from clock_timestamp()) * 1000 as double precision)`,
  beforeMigration: [
    'set local lock_timeout = 0',
    'set local statement_timeout = 0',
    `select pg_advisory_xact_lock(${migrationLock})`,
  ],
  indexedBy: () => sql``,
  statistics: { known: sql`select 1`, gather: ['analyze'] },
  columnsOf: (table) => sql`
    select column_name as name, data_type as type from information_schema.columns
    where table_schema = current_schema() and table_name = ${table} order by ordinal_position`,
  indexesOf: (table) => sql`
    select a.attname as "column", i.indisunique and i.indnkeyatts = 1 and i.indpred is null as "unique"
    from pg_index i join pg_class t on t.oid = i.indrelid and t.relname = ${table}
      and t.relnamespace = current_schema()::regnamespace
    join pg_attribute a on a.attrelid = t.oid and a.attnum = i.indkey[0]
    where i.indisvalid`,
  appendOnly: (table) => [
    `create function ${table}_append_only() returns trigger language plpgsql as
     $$ begin raise exception '${table} is append-only'; end $$`,
    `create trigger ${table}_append_only before update or delete or truncate on ${table}
     for each statement execute function ${table}_append_only()`,
  ],
  jsonRows: (json) => sql`jsonb_array_elements(cast(${json} as jsonb)) as json_each (value)`,
  jsonArray: (expression) => sql`cast(json_agg(${expression}) as text)`,
  csvFields,
  csvRecord: () => undefined,
  lockRows: sql`for no key update`,
  lockFreeRows: sql`for no key update skip locked`,
  unlogged: (table) => [`alter table ${table} set unlogged`],
  isDuplicate: (error) => field(error, 'code') === '23505',
  duplicateColumn: (error) => /^Key \("?(\w+)"?\)/.exec(String(field(error, 'detail')))?.[1],
  textSearch: {
    statements: ['create extension if not exists pg_trgm'],
    otherwise:
      'The PostgreSQL extension pg_trgm, which searches by text need, is missing and could not be created. ' +
      'Let a superuser, or the owner of the database, run in this database: create extension pg_trgm',
  },
  // It has a time limit for statements.
  interruptible: () => sql`true`,
  isUnavailable: (error) =>
    error instanceof ScanRefused ||
    postgresUnavailable.test(String(field(error, 'code') ?? '')) ||
    /Connection terminated|^Query read timeout$|connection error and is not queryable|timeout exceeded when trying to connect/.test(
      String(field(error, 'message') ?? ''),
    ),
  isLockTimeout: (error) => field(error, 'code') === '55P03',
}
