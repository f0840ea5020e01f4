import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { Database } from '../../src/storage/database.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { patient } from './timers.ts'

const postgresUrl = process.env.TEST_DATABASE_URL

/** A new, empty database, and a function that removes it. */
export interface Place {
  url: string
  remove: () => Promise<void>
}

export interface EngineUnderTest {
  name: 'sqlite' | 'postgres'
  place: () => Promise<Place>
  /** Like `place`, but the database has the service's tables. */
  migratedPlace: () => Promise<Place>
  /** Opens a new, migrated database; `close` also removes it. */
  database: () => Promise<Database>
}

async function sqlitePlace(content?: Buffer): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-db-'))
  const file = join(folder, 'plinth.db')
  if (content) writeFileSync(file, content)
  return { url: `file:${file}`, remove: async () => rmSync(folder, { recursive: true, force: true }) }
}

let migratedFile: Promise<Buffer> | undefined
/** Copies a migrated file, which takes a twentieth of the time of migrating. */
async function migratedSqlitePlace(): Promise<Place> {
  migratedFile ??= migratedSqliteFile()
  return sqlitePlace(await migratedFile)
}

async function migratedSqliteFile(): Promise<Buffer> {
  const { url, remove } = await sqlitePlace()
  const db = await openDatabase(url)
  await migrate(db).finally(db.close)
  const content = readFileSync(url.replace('file:', ''))
  await remove()
  return content
}

const postgresPlace = () => copyOf('template1')

async function copyOf(template: string): Promise<Place> {
  const name = `plinth_test_${randomBytes(6).toString('hex')}`
  await administer(`create database ${name} template ${template}${await copying()}`)
  return { url: urlOf(name), remove: async () => void (await administer(`drop database ${name} with (force)`)) }
}

let template: Promise<string> | undefined
async function migratedPostgresPlace(): Promise<Place> {
  template ??= migratedTemplate()
  return copyOf(await template)
}

const urlOf = (name: string) => Object.assign(new URL(postgresUrl as string), { pathname: `/${name}` }).href

/** A migrated database to copy, which is five times faster than migrating. The first test file that runs creates it. */
async function migratedTemplate(): Promise<string> {
  const name = `plinth_migrated_${digestOf(fileURLToPath(new URL('../../src/storage', import.meta.url)))}`
  const client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  try {
    await client.query('select pg_advisory_lock(hashtext($1))', [name])
    const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [name])
    if (rowCount === 0) {
      // The database gets the template's name only once its migration is complete.
      await client.query(`drop database if exists ${name}_new with (force)`)
      await client.query(`create database ${name}_new`)
      const db = await openDatabase(urlOf(`${name}_new`))
      await migrate(db).finally(db.close)
      await client.query(`alter database ${name}_new rename to ${name}`)
    }
  } finally {
    await client.end()
  }
  return name
}

/** Returns a digest of a folder's source files, because each version of the sources needs its own template. */
function digestOf(folder: string): string {
  const digest = createHash('sha256')
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  for (const file of files.sort()) digest.update(file).update(readFileSync(join(folder, file)))
  return digest.digest('hex').slice(0, 16)
}

/** Runs a statement on the server, and returns its rows. */
async function administer(statement: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  try {
    return (await client.query(statement)).rows
  } finally {
    await client.end()
  }
}

let strategy: Promise<string> | undefined
/** Makes PostgreSQL 15 or newer copy files, as older releases do. Copying through the WAL takes twice the CPU time. */
async function copying(): Promise<string> {
  strategy ??= administer('show server_version_num').then(([row]) =>
    Number(row?.server_version_num) >= 150_000 ? ' strategy file_copy' : '',
  )
  return strategy
}

const openingIn = (migratedPlace: () => Promise<Place>) => async (): Promise<Database> => {
  const { url, remove } = await migratedPlace()
  const database = await openDatabase(url, { setTimer: patient })
  return {
    ...database,
    close: async () => {
      await database.close()
      await remove()
    },
  }
}

/** Runs a suite once for each engine; skips PostgreSQL unless TEST_DATABASE_URL is set. */
export function forEachEngine(suite: (engine: EngineUnderTest) => void): void {
  onSqlite(suite)
  onPostgres(suite)
}

export function onSqlite(suite: (engine: EngineUnderTest) => void): void {
  const database = openingIn(migratedSqlitePlace)
  describe('on sqlite', () =>
    suite({ name: 'sqlite', place: () => sqlitePlace(), migratedPlace: migratedSqlitePlace, database }))
}

export function onPostgres(suite: (engine: EngineUnderTest) => void): void {
  const skip = postgresUrl ? false : 'TEST_DATABASE_URL is not set'
  const database = openingIn(migratedPostgresPlace)
  describe('on postgres', { skip }, () =>
    suite({ name: 'postgres', place: postgresPlace, migratedPlace: migratedPostgresPlace, database }),
  )
}
