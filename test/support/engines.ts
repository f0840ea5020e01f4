import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { openQueue } from '../../src/queue/open.ts'
import type { Database } from '../../src/storage/database.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { muchLater } from './timers.ts'

const postgresUrl = process.env.TEST_DATABASE_URL

/** A new database, and a function that removes it. */
export interface Place {
  url: string
  remove: () => Promise<void>
}

export interface EngineUnderTest {
  name: 'sqlite' | 'postgres'
  place: () => Promise<Place>
  /** Like `place`, but the database already has the service's tables. */
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
/** Copies a migrated file, which is twenty times faster than migrating. */
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
  template ??= migratedTemplate().catch((error) => {
    // Let the next test retry, because connecting can time out on a busy machine.
    template = undefined
    throw error
  })
  return copyOf(await template)
}

const urlOf = (name: string) => Object.assign(new URL(postgresUrl as string), { pathname: `/${name}` }).href

/** Returns the name of a migrated database. Copying it is five times faster than migrating a new one. */
async function migratedTemplate(): Promise<string> {
  const name = `plinth_migrated_${digestOf('src/storage', 'src/queue', 'node_modules/pg-boss/dist')}`
  const client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  try {
    await client.query('select pg_advisory_lock(hashtext($1))', [name])
    const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [name])
    if (rowCount === 0) {
      // Rename the database to the template's name only after the migration, so that an incomplete one is never used.
      await client.query(`drop database if exists ${name}_new with (force)`)
      await client.query(`create database ${name}_new`)
      await fillTemplate(urlOf(`${name}_new`))
      await client.query(`alter database ${name}_new rename to ${name}`)
    }
  } finally {
    await client.end()
  }
  return name
}

/** Creates the tables of the service and of its queue, because this is the slowest part of a startup. */
async function fillTemplate(url: string): Promise<void> {
  const db = await openDatabase(url)
  try {
    await migrate(db)
    const throwError = (error: unknown) => {
      throw error
    }
    const queue = await openQueue({ db, now: Date.now, random: Math.random, onError: throwError })
    await queue.stop(0)
  } finally {
    await db.close()
  }
  // The first connection after tables change writes a cache file. Connect once, so that copies include it.
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.end()
}

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Returns a digest of the code in these folders, for the template's name: each version of the code needs its own. */
function digestOf(...folders: string[]): string {
  const digest = createHash('sha256')
  for (const folder of folders) {
    const files = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    for (const file of files.filter((path) => /\.[jt]s$/.test(path)).sort())
      digest.update(file).update(readFileSync(join(root, folder, file)))
  }
  return digest.digest('hex').slice(0, 16)
}

/** A client that can be unreferenced so that the process can exit. The types of `pg` lack these methods. */
type Administrator = pg.Client & { ref: () => void; unref: () => void }

let administrator: Promise<Administrator> | undefined
let running = 0

/**
 * Runs a statement on the server, and returns its rows. All statements of this process share one connection, which keeps
 * the process alive only while a statement runs.
 */
async function administer(statement: string): Promise<Record<string, unknown>[]> {
  administrator ??= openAdministrator().catch((error) => {
    administrator = undefined
    throw error
  })
  const client = await administrator
  running += 1
  client.ref()
  try {
    return (await client.query(statement)).rows
  } finally {
    running -= 1
    if (running === 0) client.unref()
  }
}

async function openAdministrator(): Promise<Administrator> {
  const client = new pg.Client({ connectionString: postgresUrl }) as Administrator
  // If the connection breaks, the next statement opens a new one.
  client.on('error', () => {
    administrator = undefined
  })
  await client.connect()
  return client
}

let strategy: Promise<string> | undefined
/** Returns the clause that makes `create database` copy files, in half the CPU time; empty before PostgreSQL 15. */
async function copying(): Promise<string> {
  strategy ??= administer('show server_version_num').then(([row]) =>
    Number(row?.server_version_num) >= 150_000 ? ' strategy file_copy' : '',
  )
  return strategy
}

const openingIn = (migratedPlace: () => Promise<Place>) => async (): Promise<Database> => {
  const { url, remove } = await migratedPlace()
  const database = await openDatabase(url, { setTimer: muchLater })
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
