import { sql } from 'kysely'
import { type Capacity, type Engine, errorField, type IdColumn } from '../engine.ts'
import { ScanRefused } from '../scans/scan.ts'
import { csvFields } from './csv.ts'

/**
 * Matches SQLSTATE classes 08 (connection), 53 (resources) and 57P (shutdown), codes such as 55P03 (lock) and 57014
 * (timeout), and socket errors.
 */
const postgresUnavailable =
  /^(08|53|57P)|^(55P03|57014|58030|25006|40001|40P01|XX00[12])$|^E(CONN|PIPE|TIMEDOUT|HOSTUNREACH|NOTFOUND|AI_AGAIN)/

/** An arbitrary number, identical on every node. */
const migrationLock = 5_470_112

/** The value of one unit in the last decimal place, such as 0.01 for a scale of 2. */
const unitOf = (scale: number) => sql.raw(scale === 0 ? '1' : `0.${'1'.padStart(scale, '0')}`)

const capacities: Readonly<Record<string, Capacity>> = {
  text: { holds: 'text' },
  'character varying': { holds: 'text' },
  smallint: { holds: 'integer', magnitude: 32_767 },
  integer: { holds: 'integer', magnitude: 2_147_483_647 },
  bigint: { holds: 'integer' },
  'double precision': { holds: 'number' },
  uuid: { holds: 'uuid' },
}

const castTypes = { integer: 'bigint', number: 'double precision', uuid: 'uuid' } as const

const integerId: IdColumn = {
  name: 'id',
  type: 'integer',
  define: (column) => column.primaryKey().generatedAlwaysAsIdentity(),
}

export const postgres: Engine = {
  name: 'postgres',
  commitsInOrder: false,
  identityType: 'integer',
  identity: integerId.define,
  overridingIdentity: sql`overriding system value`,
  keyType: sql`text collate "C"`,
  uuidType: 'uuid',
  idColumns: { integer: [integerId], uuid: [{ name: 'id', type: 'uuid', define: (column) => column.primaryKey() }] },
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
  detailsOf: (table) => sql`
    select c.column_name as "name", c.data_type as "type", c.character_maximum_length as "length",
      c.is_nullable = 'NO' as "isRequired", c.column_default is not null or c.is_identity = 'YES' as "hasDefault",
      c.is_generated = 'ALWAYS' as "isGenerated", coalesce(c.collation_name = 'C', false) as "isBytewise",
      (c.column_default is not null or c.is_identity = 'YES') and c.data_type in ('integer', 'bigint') and exists (
        select 1 from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attname = c.column_name
        where i.indrelid = to_regclass(quote_ident(current_schema()) || '.' || quote_ident(c.table_name))
          and i.indisprimary and i.indnkeyatts = 1 and i.indkey[0] = a.attnum) as "isIdentity"
    from information_schema.columns c
    where c.table_schema = current_schema() and c.table_name = ${table} order by c.ordinal_position`,
  capacityOf: (type) => capacities[type] ?? { holds: 'other' },
  sortBytewise: (table, { name, type, length, isBytewise }) =>
    isBytewise
      ? []
      : [
          `alter table "${table}" alter column "${name}" type ${length === null ? type : `${type}(${length})`} collate "C"`,
        ],
  indexesOf: (table) => sql`
    select c.relname as "name", i.indisunique and i.indpred is null as "unique",
      string_agg(a.attname, ',' order by key.position) as "columns"
    from pg_index i join pg_class c on c.oid = i.indexrelid
    join pg_class t on t.oid = i.indrelid and t.relname = ${table} and t.relnamespace = current_schema()::regnamespace
    cross join unnest(i.indkey) with ordinality as key (attribute, position)
    join pg_attribute a on a.attrelid = t.oid and a.attnum = key.attribute
    where i.indisvalid and i.indexprs is null and key.position <= i.indnkeyatts
    group by c.relname, i.indisunique, i.indpred`,
  foreignKeysOf: (table) => sql`
    select a.attname as "column", p.relname as "table"
    from pg_constraint c join pg_class t on t.oid = c.conrelid and t.relname = ${table}
      and t.relnamespace = current_schema()::regnamespace
    join pg_class p on p.oid = c.confrelid
    join pg_attribute a on a.attrelid = t.oid and a.attnum = c.conkey[1]
    where c.contype = 'f' and cardinality(c.conkey) = 1`,
  changeForeignKey: ({ table, column, constraint, exists, references }) => {
    const addition = `add constraint "${constraint}" foreign key ("${column}") references "${references}" ("id")`
    const changes = [...(exists ? [`drop constraint "${constraint}"`] : []), ...(references === null ? [] : [addition])]
    return changes.map((change) => `alter table "${table}" ${change}`)
  },
  addsForeignKeys: true,
  renameForeignKey: (table, from, to) => [`alter table "${table}" rename constraint "${from}" to "${to}"`],
  appendOnly: (table) => [
    `create function ${table}_append_only() returns trigger language plpgsql as
     $$ begin raise exception '${table} is append-only'; end $$`,
    `create trigger ${table}_append_only before update or delete or truncate on ${table}
     for each statement execute function ${table}_append_only()`,
  ],
  deletableUpTo: (table, column, expression) => [
    `drop trigger ${table}_append_only on ${table}`,
    `create trigger ${table}_append_only before update or truncate on ${table}
     for each statement execute function ${table}_append_only()`,
    `create function ${table}_no_delete() returns trigger language plpgsql as
     $$ begin
       if old.${column} > ${expression} then raise exception '${table} is append-only'; end if;
       return old;
     end $$`,
    `create trigger ${table}_no_delete before delete on ${table}
     for each row execute function ${table}_no_delete()`,
  ],
  jsonRows: (json) => sql`jsonb_array_elements(cast(${json} as jsonb)) as json_each (value)`,
  // The planner expects an array to have few elements, so it uses the index. It would expect a subquery to return a
  // hundred rows.
  isAmong: (column, json, ids) =>
    sql`${column} = any(cast(translate(${json}, '[]', '{}') as ${ids === 'uuid' ? sql`uuid` : sql`bigint`}[]))`,
  jsonCell: (json, path, type) => {
    const cell = sql`cast(${json} as json) #>> ${sql.lit(`{${path.map((name) => JSON.stringify(name)).join()}}`)}`
    return type === 'text' ? sql`(${cell}) collate "C"` : sql`cast(${cell} as ${sql.raw(castTypes[type])})`
  },
  jsonArray: (expression) => sql`cast(json_agg(${expression}) as text)`,
  csvFields,
  csvRecord: () => undefined,
  bytewise: (term) => sql`${term} collate "C"`,
  // In PostgreSQL, the sum of bigints is a numeric, so it cannot overflow. Multiplying it by the unit (such as 0.01)
  // gives the result the right scale.
  exactSum: (column, scale) => sql`cast(coalesce(sum(${column}), 0) * ${unitOf(scale)} as text)`,
  // `div` truncates exactly. The result of `/` would already be rounded, so it could be rounded twice.
  exactAverage: (column, scale) => {
    const [sum, count] = [sql`cast(sum(${column}) as numeric)`, sql`count(${column})`]
    const rounded = sql`sign(${sum}) * div(200 * abs(${sum}) + ${count}, nullif(2 * ${count}, 0))`
    return sql`cast(${rounded} * ${unitOf(scale)} as text)`
  },
  lockRows: sql`for no key update`,
  lockRowsNow: sql`for no key update nowait`,
  lockFreeRows: sql`for no key update skip locked`,
  lockKeys: sql`for key share`,
  lockForRemoval: sql`for update`,
  unlogged: (table) => [`alter table ${table} set unlogged`],
  isDuplicate: (error) => errorField(error, 'code') === '23505',
  duplicateColumns: (error) => /^Key \(([^)]+)\)=/.exec(String(errorField(error, 'detail')))?.[1]?.match(/\w+/g) ?? [],
  textSearch: {
    statements: ['create extension if not exists pg_trgm'],
    errorMessage:
      'Text search needs the PostgreSQL extension pg_trgm, which is missing and could not be created. ' +
      'As a superuser or the owner of the database, run: create extension pg_trgm',
  },
  // Always true, because the statement timeout already stops long statements.
  interruptible: () => sql`true`,
  isUnavailable: (error) =>
    error instanceof ScanRefused ||
    postgresUnavailable.test(String(errorField(error, 'code') ?? '')) ||
    /Connection terminated|^Query read timeout$|connection error and is not queryable|timeout exceeded when trying to connect/.test(
      String(errorField(error, 'message') ?? ''),
    ),
  // Also lists the tables of the job queue, which are in the schema `pgboss`.
  tableSizes: {
    query: sql`(
      select case when n.nspname = 'pgboss' then 'pgboss.' || c.relname else c.relname end as table_name,
        coalesce(pg_total_relation_size(c.oid), 0) as bytes, cast(null as text) as sample,
        cast(case when c.reltuples > 0 then c.reltuples else pg_stat_get_live_tuples(c.oid) end as bigint) as rows
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'm') and (n.nspname = current_schema() or n.nspname = 'pgboss'))`,
    sizeOf: ({ bytes, rows }) => ({ bytes, rows }),
  },
  isLockTimeout: (error) => errorField(error, 'code') === '55P03',
  isRepeatable: (error) => ['40P01', '40001'].includes(String(errorField(error, 'code'))),
}
