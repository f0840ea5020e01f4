import { type ColumnDefinitionBuilder, type RawBuilder, sql } from 'kysely'

/** Every difference between the two database engines, as data. Callers never ask which engine they run on. */
export interface Engine {
  name: 'sqlite' | 'postgres'
  /** Column type of an integer key that the engine assigns and never gives out twice. */
  identityType: 'integer'
  identity: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder
  /** Column type of folded text: compares by bytes, so that both engines sort alike. */
  keyType: RawBuilder<unknown>
  /** Run first by a migration: no limits on its time, and one process at a time. */
  beforeMigration: readonly string[]
  /** True when an error says that a unique index already holds the value. */
  isDuplicate: (error: unknown) => boolean
  /** True when an error says that the store cannot take work now: full, locked, unreachable. */
  isUnavailable: (error: unknown) => boolean
}

const field = (error: unknown, name: string): unknown =>
  typeof error === 'object' && error !== null ? (error as Record<string, unknown>)[name] : undefined

/** Primary result codes: 5 BUSY, 6 LOCKED, 8 READONLY, 10 IOERR, 13 FULL, 14 CANTOPEN. */
const sqliteUnavailable = new Set([5, 6, 8, 10, 13, 14])

export const sqlite: Engine = {
  name: 'sqlite',
  identityType: 'integer',
  identity: (column) => column.primaryKey().autoIncrement(),
  keyType: sql`text`,
  beforeMigration: [],
  isDuplicate: (error) => [1555, 2067].includes(Number(field(error, 'errcode'))),
  isUnavailable: (error) => sqliteUnavailable.has(Number(field(error, 'errcode')) & 0xff),
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
  beforeMigration: [
    'set local lock_timeout = 0',
    'set local statement_timeout = 0',
    `select pg_advisory_xact_lock(${migrationLock})`,
  ],
  isDuplicate: (error) => field(error, 'code') === '23505',
  isUnavailable: (error) =>
    postgresUnavailable.test(String(field(error, 'code') ?? '')) ||
    /Connection terminated|connection error and is not queryable|timeout exceeded when trying to connect/.test(
      String(field(error, 'message') ?? ''),
    ),
}
