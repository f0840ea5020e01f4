import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { describe, it } from 'node:test'
import { type Kysely, sql } from 'kysely'
import type { Queryable } from '../../src/storage/database.ts'
import type { Engine } from '../../src/storage/engine.ts'
import { migrationNames } from '../../src/storage/migrate.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { forEachEngine } from '../support/engines.ts'

type Migration = (db: Kysely<unknown>, engine: Engine) => Promise<void>

/** The newest migration of the first release whose nodes can run alongside those of the next release. */
const base = '0030-uuids'

const folder = new URL('../../src/storage/migrations/', import.meta.url)
const files = globSync('*.ts', { cwd: folder.pathname }).sort()

async function load(file: string): Promise<Migration> {
  const [migration] = Object.values((await import(new URL(file, folder).href)) as Record<string, Migration>)
  return migration as Migration
}

interface Column {
  type: string
  isRequired: boolean
  hasDefault: boolean
}

/** Returns the columns of all tables, keyed by `table.column`. */
async function columnsOf(db: Queryable, engine: Engine): Promise<Map<string, Column>> {
  const list =
    engine.name === 'sqlite'
      ? sql<{ name: string }>`select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'`
      : sql<{ name: string }>`select tablename as name from pg_tables where schemaname = current_schema()`
  const columns = new Map<string, Column>()
  for (const { name: table } of (await list.execute(db)).rows) {
    for (const { name, type, isRequired, hasDefault } of (await engine.detailsOf(table).execute(db)).rows) {
      columns.set(`${table}.${name}`, { type, isRequired: Boolean(isRequired), hasDefault: Boolean(hasDefault) })
    }
  }
  return columns
}

/** Returns the changes in a migration that would break processes of the previous release. */
function broken(before: ReadonlyMap<string, Column>, after: ReadonlyMap<string, Column>): string[] {
  const tables = new Set([...before.keys()].map((name) => name.split('.')[0]))
  const lost = [...before].flatMap(([name, column]) => {
    const now = after.get(name)
    if (now === undefined) return [`${name} is gone`]
    if (now.type !== column.type) return [`${name} is ${now.type} instead of ${column.type}`]
    return now.isRequired && !now.hasDefault && !column.isRequired ? [`${name} is required`] : []
  })
  const required = [...after].filter(
    ([name, { isRequired, hasDefault }]) =>
      !before.has(name) && tables.has(name.split('.')[0]) && isRequired && !hasDefault,
  )
  return [...lost, ...required.map(([name]) => `${name} is new, required and without a default`)]
}

forEachEngine((engine) => {
  describe(`migrations after ${base} (${engine.name})`, () => {
    it('keep all columns that the previous release uses, and require no values that it does not write', async () => {
      assert.deepEqual(
        files.map((file) => file.replace('.ts', '')),
        migrationNames,
      )
      const { url, remove } = await engine.place()
      const db = await openDatabase(url)
      try {
        const run = async (file: string) => {
          const migration = await load(file)
          await db.write((tx) => migration(tx as unknown as Kysely<unknown>, db.engine))
        }
        const first = migrationNames.indexOf(base) + 1
        for (const file of files.slice(0, first)) await run(file)
        let before = await columnsOf(db.read, db.engine)
        for (const file of files.slice(first)) {
          await run(file)
          const after = await columnsOf(db.read, db.engine)
          assert.deepEqual(broken(before, after), [], file)
          before = after
        }
      } finally {
        await db.close()
        await remove()
      }
    })
  })
})
