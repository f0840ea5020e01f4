import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { sql } from 'kysely'
import type { ChangeTracker, Database, Queryable } from '../../src/storage/database.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { onSqlite, type Place } from '../support/engines.ts'

onSqlite((engine) => {
  describe('Database.changes', () => {
    let place: Place
    let db: Database
    let changes: ChangeTracker
    /** A second connection, which SQLite treats like a connection from another process. */
    let other: DatabaseSync
    beforeEach(async () => {
      place = await engine.migratedPlace()
      db = await openDatabase(place.url)
      assert.ok(db.changes)
      changes = db.changes
      other = new DatabaseSync(place.url.slice('file:'.length), { timeout: 0 })
      await add('Lamp', 'Chair', 'Table')
    })
    afterEach(async () => {
      other.close()
      await db.close()
      await place.remove()
    })

    const instant = '2026-01-01T00:00:00.000Z'
    const product = (name: string) => ({
      ...{ name, nameKey: name, price: 1, revision: 1, createdAt: instant, updatedAt: instant },
    })
    const add = (...names: string[]) => db.write((tx) => tx.insertInto('products').values(names.map(product)).execute())
    const rename = (tx: Queryable, ids: number[]) =>
      tx.updateTable('products').set({ name: 'Desk' }).where('id', 'in', ids).returning(['id', 'name']).execute()

    /** Runs a write; returns the products and tables that are reported as changed afterward. */
    const changedBy = async (write: () => unknown) => {
      const asOf = changes.last()
      await write()
      return {
        rows: [1, 2, 3].filter((id) => changes.lastOfRow('products', id) > asOf),
        tables: ['products', 'books', 'users', 'accounts'].filter((table) => changes.lastOf(table) > asOf),
      }
    }

    it('reports the rows that an update returns', async () => {
      const changed = await changedBy(() => db.write((tx) => rename(tx, [1, 3])))
      assert.deepEqual(changed, { rows: [1, 3], tables: ['products'] })
    })

    it('reports the rows that a deletion returns', async () => {
      const changed = await changedBy(() =>
        db.write((tx) => tx.deleteFrom('products').where('id', '=', 2).returning('id').execute()),
      )
      assert.deepEqual(changed, { rows: [2], tables: ['products'] })
    })

    it('reports nothing for an update that matches no row', async () => {
      assert.deepEqual(await changedBy(() => db.write((tx) => rename(tx, [9]))), { rows: [], tables: [] })
    })

    it('reports the table, but no existing row, when a row is added', async () => {
      assert.deepEqual(await changedBy(() => add('Sofa')), { rows: [], tables: ['products'] })
    })

    for (const [name, statement] of [
      ['an update that returns no ids', sql`update products set price = 2 where id = 1`],
      ['an update that returns another id', sql`update products set price = 2 where id = 1 returning price as id`],
      ['a deletion that returns no ids', sql`delete from products where id = 1`],
      ['an insert that may replace', sql`insert or replace into products select * from products where id = 1`],
      [
        'an insert that may update',
        sql`insert into products select * from products where id = 1 on conflict (id) do update set price = 2`,
      ],
      ['a change after WITH', sql`with chosen as (select 1 as id) update products set price = 2 where id = 1`],
    ] as const)
      it(`reports all rows of the table for ${name}`, async () => {
        const changed = await changedBy(() => db.write((tx) => statement.execute(tx)))
        assert.deepEqual(changed, { rows: [1, 2, 3], tables: ['products'] })
      })

    it('reports every table that a deletion changes through foreign keys', async () => {
      const changed = await changedBy(() =>
        db.write(async (tx) => {
          await sql`insert into users (id, name, name_key, email, email_key, revision, created_at, updated_at)
            values (1, 'Ada', 'ada', 'a@b.c', 'a@b.c', 1, ${instant}, ${instant})`.execute(tx)
          await sql`delete from users where id = 1`.execute(tx)
        }),
      )
      assert.deepEqual(changed, { rows: [], tables: ['users', 'accounts'] })
    })

    for (const [name, statement] of [
      ['a change of the schema', sql`create table added (id integer)`],
      ['a change of a table with a trigger', sql`insert into books_of_others values (1)`],
    ] as const)
      it(`reports all tables and rows for ${name}`, async () => {
        await db.write(async (tx) => {
          await sql`create table books_of_others (id integer)`.execute(tx)
          await sql`create trigger copied after insert on books_of_others
            begin update products set price = 3 where id = 1; end`.execute(tx)
        })
        const changed = await changedBy(() => db.write((tx) => statement.execute(tx)))
        assert.deepEqual(changed, { rows: [1, 2, 3], tables: ['products', 'books', 'users', 'accounts'] })
      })

    it('reports all tables and rows, but only once, after a commit on another connection', async () => {
      changes.last()
      await turn()
      const changed = await changedBy(async () => {
        other.exec('update products set price = 5 where id = 2')
        await turn()
      })
      assert.deepEqual(changed, { rows: [1, 2, 3], tables: ['products', 'books', 'users', 'accounts'] })
      assert.deepEqual(await changedBy(turn), { rows: [], tables: [] })
    })

    it('reports nothing for reads, and still rolls back a transaction that throws', async () => {
      const nothing = { rows: [], tables: [] }
      assert.deepEqual(await changedBy(() => db.read.selectFrom('products').selectAll().execute()), nothing)
      const failed = db.write(async (tx) => {
        await rename(tx, [1])
        throw new Error('no')
      })
      await assert.rejects(failed)
      assert.equal((await db.read.selectFrom('products').select('name').where('id', '=', 1).execute())[0]?.name, 'Lamp')
    })

    /** Changes a row, and runs another change in the same commit; returns whether the row is reported as changed since. */
    const isOutdated = async (other: (tx: Queryable) => Promise<unknown>) => {
      const renamed = async (tx: Queryable) => {
        await rename(tx, [1])
        return changes.pending()
      }
      const [asOf] = await Promise.all([db.write(renamed), db.write(other)])
      return changes.lastOfRow('products', 1) > asOf
    }

    it('does not report a further change to a row that the commit changed only once', async () => {
      assert.equal(await isOutdated(async () => {}), false)
      assert.equal(await isOutdated((tx) => rename(tx, [2])), false)
    })

    for (const [name, other] of [
      ['a second change', (tx: Queryable) => rename(tx, [1])],
      ['a deletion', (tx: Queryable) => tx.deleteFrom('products').where('id', '=', 1).returning('id').execute()],
      ['a change that returns no ids', (tx: Queryable) => sql`update products set price = 2`.execute(tx)],
      ['a change of the schema', (tx: Queryable) => sql`create table added (id integer)`.execute(tx)],
    ] as const)
      it(`reports a further change to a row if its first change is followed by ${name} in the same commit`, async () => {
        assert.equal(await isOutdated(other), true)
      })

    it('reports a changed row by the time the write resolves', async () => {
      const asOf = changes.last()
      let atAcknowledgement = 0
      await db
        .write((tx) => rename(tx, [1]))
        .then(() => {
          atAcknowledgement = changes.lastOfRow('products', 1)
        })
      assert.ok(atAcknowledgement > asOf)
    })
  })
})
