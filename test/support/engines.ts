import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe } from 'node:test'
import pg from 'pg'
import { migrate } from '../../src/db/migrate.ts'
import { type Database, openDatabase } from '../../src/db/open.ts'

const postgresUrl = process.env.TEST_DATABASE_URL

/** A place for a new, empty database of one engine, and how to remove it. */
export interface Place {
  url: string
  remove: () => Promise<void>
}

export interface EngineUnderTest {
  name: 'sqlite' | 'postgres'
  place: () => Promise<Place>
  /** Opens a new migrated database; `close` also removes it. */
  database: () => Promise<Database>
}

async function sqlitePlace(): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-db-'))
  return {
    url: `file:${join(folder, 'plinth.db')}`,
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  }
}

async function postgresPlace(): Promise<Place> {
  const name = `plinth_test_${randomBytes(6).toString('hex')}`
  await administer(`create database ${name}`)
  const url = new URL(postgresUrl as string)
  url.pathname = `/${name}`
  return { url: url.href, remove: () => administer(`drop database ${name} with (force)`) }
}

async function administer(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  await client.query(statement).finally(() => client.end())
}

const withDatabase = (place: () => Promise<Place>) => async (): Promise<Database> => {
  const { url, remove } = await place()
  const database = await openDatabase(url)
  await migrate(database)
  return {
    ...database,
    close: async () => {
      await database.close()
      await remove()
    },
  }
}

/** Runs a suite once per engine; PostgreSQL shows as skipped where TEST_DATABASE_URL names no server. */
export function forEachEngine(suite: (engine: EngineUnderTest) => void): void {
  onSqlite(suite)
  onPostgres(suite)
}

export function onSqlite(suite: (engine: EngineUnderTest) => void): void {
  describe('on sqlite', () => suite({ name: 'sqlite', place: sqlitePlace, database: withDatabase(sqlitePlace) }))
}

export function onPostgres(suite: (engine: EngineUnderTest) => void): void {
  const skip = postgresUrl ? false : 'TEST_DATABASE_URL is not set'
  describe('on postgres', { skip }, () =>
    suite({ name: 'postgres', place: postgresPlace, database: withDatabase(postgresPlace) }),
  )
}
