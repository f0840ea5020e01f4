import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { sql } from 'kysely'
import type { Database } from '../../src/storage/database.ts'
import { type Migrated, migrate } from '../../src/storage/migrate.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { forEachEngine, type Place } from '../support/engines.ts'

forEachEngine((engine) => {
  describe('migrate (T-OPS-03)', () => {
    let place: Place
    const opened: Database[] = []
    const open = async () => {
      const db = await openDatabase(place.url)
      opened.push(db)
      return db
    }
    beforeEach(async () => {
      place = await engine.place()
    })
    afterEach(async () => {
      await Promise.all(opened.splice(0).map((db) => db.close()))
      await place.remove()
    })
    const names = async (db: Database) =>
      (await sql<{ name: string }>`select name from migrations order by name`.execute(db.read)).rows.map(
        ({ name }) => name,
      )

    it('migrates an empty database and returns the names of the migrations that ran', async () => {
      const db = await open()
      const run = await migrate(db)
      assert.ok(run.length > 0)
      assert.deepEqual(run, run.toSorted())
      for (const name of run) assert.match(name, /^\d{4}-[a-z-]+$/)
      assert.deepEqual(await names(db), run)
    })

    it('runs no migration twice, and preserves existing rows', async () => {
      const db = await open()
      await migrate(db)
      await db.write((tx) => tx.insertInto('settings').values({ name: 'kept', value: 'x' }).execute())
      assert.deepEqual(await migrate(db), [])
      assert.deepEqual(await migrate(await open()), [])
      assert.deepEqual(await db.read.selectFrom('settings').select('name').execute(), [{ name: 'kept' }])
    })

    it('runs each migration once if several nodes start concurrently', async () => {
      const nodes = await Promise.all([open(), open(), open()])
      const runs = await Promise.all(nodes.map((node) => migrate(node)))
      const all = runs.flat()
      assert.equal(runs.filter((run) => run.length > 0).length, 1)
      assert.deepEqual(await names(nodes[0] as Database), all.toSorted())
    })

    it('reports each migration that ran, with its duration; a plan only returns the names', async () => {
      const db = await open()
      const reported: Migrated[] = []
      const onMigrated = (migration: Migrated) => reported.push(migration)
      const planned = await migrate(db, { plan: true, onMigrated })
      assert.deepEqual(reported, [])
      assert.deepEqual((await db.engine.columnsOf('users').execute(db.read)).rows, [])
      const all = await migrate(db, { onMigrated })
      assert.deepEqual(planned, all)
      assert.deepEqual(
        reported.map(({ name }) => name),
        all,
      )
      assert.ok(reported.every(({ ms }) => Number.isInteger(ms) && ms >= 0))
      await migrate(db, { onMigrated })
      assert.equal(reported.length, all.length)
    })

    it('runs a migration again if its record is missing', async () => {
      const db = await open()
      const all = await migrate(db)
      const last = all.at(-1) as string
      const before = await names(db)
      await db.write((tx) => sql`delete from migrations where name = ${last}`.execute(tx))
      // The migration fails because its changes were already made, which proves that it ran again.
      await assert.rejects(migrate(db), /already exists|duplicate column|no such index|does not exist/)
      assert.deepEqual(
        await names(db),
        before.filter((name) => name !== last),
      )
    })

    it('assigns existing deliveries to the webhook’s owner or, for private events of deleted webhooks, to the event’s owner', async () => {
      const db = await open()
      await migrate(db)
      const event = { type: 'user.created', ownerClient: 'causer', ownerSubject: '7', body: '{}', callbackUrl: null }
      const kept = { url: 'https://x.test/', body: '{}', status: 'failed', attempts: 0, nextAttemptAt: null } as const
      await db.write(async (tx) => {
        for (const column of ['owner_client', 'owner_subject']) {
          await sql`drop index if exists deliveries_owner`.execute(tx)
          await sql`alter table deliveries drop column ${sql.ref(column)}`.execute(tx)
        }
        await sql`delete from migrations where name = '0014-delivery-owners'`.execute(tx)
        await sql`insert into webhooks (id, owner_client, owner_subject, event, callback_url, payload_style, status,
            secret_sealed, revision, created_at, updated_at)
          values ('whk', 'owner', '8', '*', 'https://x.test/', 'plain', 'active', '', 1, '', '')`.execute(tx)
        for (const [id, webhookId, audience] of [
          ['registered', 'whk', 'any'],
          ['deleted', 'gone', 'any'],
          ['own', 'gone', null],
        ] as const) {
          await tx
            .insertInto('events')
            .values({ ...event, id, audience, createdAt: '' })
            .execute()
          const row = { ...kept, id, eventId: id, webhookId, createdAt: '', completedAt: null }
          await tx.insertInto('deliveries').values(row).execute()
        }
      })
      assert.deepEqual(await migrate(db), ['0014-delivery-owners'])
      const rows = await db.read.selectFrom('deliveries').select(['id', 'ownerClient', 'ownerSubject']).execute()
      assert.deepEqual(Object.fromEntries(rows.map((row) => [row.id, [row.ownerClient, row.ownerSubject]])), {
        registered: ['owner', '8'],
        deleted: ['', ''],
        own: ['causer', '7'],
      })
    })

    it('marks existing rows that were changed in the second in which they were created', async () => {
      const db = await open()
      const column = {
        kind: 'text',
        sql: 'text',
        required: false,
        folded: false,
        unique: false,
        indexed: false,
      } as const
      await migrate(db, {
        tables: [{ path: '/notes', name: 'resource_notes', columns: [{ ...column, name: 'text' }], search: [] }],
      })
      const tables = ['users', 'products', 'books', 'tasks', 'webhooks', 'clients', 'api_keys', 'resource_notes']
      const [at, soon, later] = ['2026-03-01T12:00:00.100Z', '2026-03-01T12:00:00.900Z', '2026-03-01T12:00:01.000Z']
      await db.write(async (tx) => {
        for (const table of tables) await sql`alter table ${sql.table(table)} drop column shares_second`.execute(tx)
        await sql`delete from migrations where name = '0015-shared-seconds'`.execute(tx)
        await sql`insert into resource_tables (name, columns) values ('resource_gone', '[]')`.execute(tx)
        for (const table of ['products', 'resource_notes']) {
          const own = table === 'products' ? sql`name, name_key, price` : sql`text`
          const values = table === 'products' ? sql`'Pen', 'pen', 1` : sql`'x'`
          for (const [revision, updated] of [
            [1, at],
            [2, soon],
            [2, later],
          ] as const) {
            await sql`insert into ${sql.table(table)} (${own}, revision, created_at, updated_at)
              values (${values}, ${revision}, ${at}, ${updated})`.execute(tx)
          }
        }
      })
      assert.deepEqual(await migrate(db), ['0015-shared-seconds'])
      for (const table of ['products', 'resource_notes']) {
        const rows = await sql<{ shared: number }>`
          select shares_second as shared from ${sql.table(table)} order by id`.execute(db.read)
        assert.deepEqual(
          rows.rows.map(({ shared }) => shared),
          [0, 1, 0],
        )
      }
    })

    it('rejects the schema of a newer release and leaves it unchanged', async () => {
      const db = await open()
      await db.write(async (tx) => {
        await sql`create table migrations (name text primary key)`.execute(tx)
        await sql`insert into migrations (name) values ('9999-from-the-future')`.execute(tx)
      })
      await assert.rejects(migrate(db), {
        message: /newer release: its schema is 9999-from-the-future, and this release knows \d{4}-\S+ at most/,
        exitCode: 2,
      })
      assert.deepEqual(await names(db), ['9999-from-the-future'])
      await assert.rejects(db.read.selectFrom('users').selectAll().execute())
    })

    it('changes nothing if a migration fails', async () => {
      const db = await open()
      await db.write((tx) => sql`create table tasks (id integer)`.execute(tx))
      await assert.rejects(migrate(db), /already exists|duplicate column|no such index|does not exist/)
      await assert.rejects(names(db))
      await assert.rejects(db.read.selectFrom('users').selectAll().execute())
      await db.write((tx) => sql`drop table tasks`.execute(tx))
      assert.ok((await migrate(db)).length > 0)
    })
  })
})
