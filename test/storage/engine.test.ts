import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, it } from 'node:test'
import { sql } from 'kysely'
import type { Database, Queryable } from '../../src/storage/database.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { postgres } from '../../src/storage/postgres/engine.ts'
import { openSqliteFile, sqliteValues } from '../../src/storage/sqlite/driver.ts'
import { sqlite } from '../../src/storage/sqlite/engine.ts'
import { forEachEngine, onPostgres, onSqlite } from '../support/engines.ts'

const failureOf = async (work: Promise<unknown>): Promise<unknown> => {
  const [outcome] = await Promise.allSettled([work])
  assert.equal(outcome?.status, 'rejected', 'it should have failed')
  return (outcome as PromiseRejectedResult).reason
}
const thrownBy = (work: () => unknown): unknown => {
  try {
    work()
  } catch (error) {
    return error
  }
  assert.fail('it should have thrown')
}

forEachEngine((engine) => {
  let db: Database
  before(async () => {
    db = await engine.database()
  })
  after(() => db.close())

  /** Returns true for errors that lead to a 500: neither duplicates nor outages. */
  const isFault = (error: unknown) => !db.engine.isDuplicate(error) && !db.engine.isUnavailable(error)
  const setting = (tx: Queryable, name: string, value: string | null = 'x') =>
    tx
      .insertInto('settings')
      .values({ name, value: value as string })
      .execute()

  describe('isDuplicate', () => {
    it('is true for a duplicate value in a primary key or a unique column', async () => {
      await db.write((tx) => setting(tx, 'a'))
      const taken = await failureOf(db.write((tx) => setting(tx, 'a')))
      assert.ok(db.engine.isDuplicate(taken) && !db.engine.isUnavailable(taken))
      const user = { name: 'A', nameKey: 'a', email: 'a', emailKey: 'a', address: null, phone: null }
      const stamps = { revision: 1, createdAt: 'x', updatedAt: 'x' }
      const add = () =>
        db.write((tx) =>
          tx
            .insertInto('users')
            .values({ ...user, ...stamps })
            .execute(),
        )
      await add()
      const email = await failureOf(add())
      assert.ok(db.engine.isDuplicate(email) && !db.engine.isUnavailable(email))
    })

    it('is false for violations of other constraints and for invalid statements', async () => {
      assert.ok(isFault(await failureOf(db.write((tx) => setting(tx, 'b', null)))))
      assert.ok(isFault(await failureOf(sql`select nothing from nowhere`.execute(db.read))))
      assert.ok(isFault(await failureOf(sql`selec`.execute(db.read))))
    })
  })

  it('isDuplicate and isUnavailable are false for values that are not database errors', () => {
    for (const error of [
      undefined,
      null,
      'disk full',
      7,
      {},
      new Error('busy'),
      new TypeError('x'),
      { code: 'FST_ERR_NOT_FOUND' },
    ]) {
      assert.ok(isFault(error), String(error))
    }
  })
})

onSqlite((engine) => {
  describe('isUnavailable', () => {
    it('is true for a locked, read-only or unopenable file', async () => {
      const place = await engine.place()
      const path = place.url.slice('file:'.length)
      const [holder, waiter] = [new DatabaseSync(path), new DatabaseSync(path, { timeout: 0 })]
      holder.exec('create table t (n integer); begin immediate')
      assert.ok(sqlite.isUnavailable(thrownBy(() => waiter.exec('begin immediate'))), 'locked')
      holder.exec('commit')
      const reader = new DatabaseSync(path, { readOnly: true })
      assert.ok(sqlite.isUnavailable(thrownBy(() => reader.exec('insert into t values (1)'))), 'read-only')
      for (const handle of [holder, waiter, reader]) handle.close()
      rmSync(path)
      assert.ok(sqlite.isUnavailable(thrownBy(() => new DatabaseSync(path, { readOnly: true }))), 'unopenable')
      await place.remove()
    })

    it('depends on the primary result code, and is false for constraint violations and misuse', () => {
      const of = (errcode: number) => sqlite.isUnavailable(Object.assign(new Error(), { errcode }))
      // BUSY_SNAPSHOT, IOERR_READ, IOERR_FSYNC, CANTOPEN_FULLPATH, FULL, READONLY_DBMOVED, CORRUPT, NOTADB
      for (const code of [517, 266, 1_034, 782, 13, 1_032, 11, 26]) assert.equal(of(code), true, String(code))
      // ERROR, CONSTRAINT_UNIQUE, MISMATCH, MISUSE
      for (const code of [1, 2_067, 20, 21]) assert.equal(of(code), false, String(code))
    })

    it('is true for a failed fdatasync of the log', () => {
      assert.equal(sqlite.isUnavailable(Object.assign(new Error(), { code: 'EIO', syscall: 'fdatasync' })), true)
      assert.equal(sqlite.isUnavailable(Object.assign(new Error(), { code: 'EIO', syscall: 'read' })), false)
    })
  })

  it('sqliteValues rejects a Date, and maps undefined to null and booleans to numbers', () => {
    assert.throws(() => sqliteValues([new Date()]), /ISO 8601 text/)
    assert.deepEqual(sqliteValues([undefined, null, true, false, 7, 'x']), [null, null, 1, 0, 7, 'x'])
  })

  it('openSqliteFile opens files with WAL, synchronous=FULL, foreign keys and no trusted schema', async () => {
    const place = await engine.place()
    const { db } = openSqliteFile(place.url.slice('file:'.length))
    const pragma = (name: string) => Object.values(db.prepare(`pragma ${name}`).get() ?? {})[0]
    assert.deepEqual(['journal_mode', 'synchronous', 'foreign_keys', 'trusted_schema'].map(pragma), ['wal', 2, 1, 0])
    db.close()
    await place.remove()
  })
})

onPostgres((engine) => {
  describe('isUnavailable', () => {
    let db: Database
    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())
    const unavailable = async (work: Promise<unknown>) => {
      const error = await failureOf(work)
      assert.ok(postgres.isUnavailable(error), String(error))
      assert.equal(postgres.isDuplicate(error), false)
    }

    it('is true when a statement times out', async () => {
      await unavailable(
        db.write(async (tx) => {
          await sql`set local statement_timeout = 1`.execute(tx)
          await sql`select pg_sleep(3)`.execute(tx)
        }),
      )
    })

    it('is true when the server does not respond within the short timeouts of a rate-limit connection', async () => {
      const bestEffort = await openDatabase(db.url, { poolSize: 1, isBestEffort: true })
      await unavailable(sql`select pg_sleep(3)`.execute(bestEffort.read))
      const silent = bestEffort.write(async (tx) => {
        await sql`set local statement_timeout = 9000`.execute(tx)
        await sql`select pg_sleep(5)`.execute(tx)
      })
      const error = await failureOf(silent)
      const expected = ['Error: PostgreSQL did not respond within 700 ms', true]
      assert.deepEqual([String(error), postgres.isUnavailable(error)], expected)
      await bestEffort.ping()
      await bestEffort.close()
    })

    it('is true when another transaction holds a lock for too long', async () => {
      await db.write((tx) => tx.insertInto('settings').values({ name: 'locked', value: 'x' }).execute())
      const change = (tx: Queryable) =>
        tx.updateTable('settings').set({ value: 'y' }).where('name', '=', 'locked').execute()
      await db.write(async (holder) => {
        await change(holder)
        await unavailable(
          db.write(async (tx) => {
            await sql`set local lock_timeout = 1`.execute(tx)
            await change(tx)
          }),
        )
      })
    })

    it('is true for one of two deadlocked transactions', async () => {
      const add = (name: string) => db.write((tx) => tx.insertInto('settings').values({ name, value: 'x' }).execute())
      await add('one')
      await add('two')
      const both = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
      const crossed = (first: string, second: string, own: 0 | 1) =>
        db.write(async (tx) => {
          await tx.updateTable('settings').set({ value: 'y' }).where('name', '=', first).execute()
          both[own].resolve()
          await both[own === 0 ? 1 : 0].promise
          await tx.updateTable('settings').set({ value: 'y' }).where('name', '=', second).execute()
        })
      const ends = await Promise.allSettled([crossed('one', 'two', 0), crossed('two', 'one', 1)])
      const failed = ends.filter((end) => end.status === 'rejected')
      assert.equal(failed.length, 1)
      assert.ok(postgres.isUnavailable(failed[0]?.reason), String(failed[0]?.reason))
    })

    /** Terminates the server process of a connection and waits until it has exited. */
    const end = async (pid: unknown) => {
      await sql`select pg_terminate_backend(${pid})`.execute(db.read)
      const isAlive = async () =>
        (await sql`select 1 from pg_stat_activity where pid = ${pid}`.execute(db.read)).rows.length
      while ((await isAlive()) > 0);
      await db.ping()
    }
    /** Runs work during which connections break; asserts that no error is uncaught, which would crash the process. */
    const survives = async (work: () => Promise<void>) => {
      const uncaught: unknown[] = []
      const note = (error: unknown) => void uncaught.push(error)
      process.on('uncaughtException', note)
      await work().finally(() => process.off('uncaughtException', note))
      assert.deepEqual(uncaught.map(String), [])
      await db.ping()
    }
    const ownPid = 'select pg_backend_pid() as pid'

    it('is true when the connection breaks between two statements, without crashing the process (F-PG-02)', () =>
      survives(async () => {
        const errors: unknown[] = []
        for (let time = 0; time < 12; time++) {
          const work = db.write(async (tx) => {
            await end((await sql<{ pid: number }>`${sql.raw(ownPid)}`.execute(tx)).rows[0]?.pid)
            await sql`select 1`.execute(tx)
          })
          errors.push(await failureOf(work))
        }
        for (const error of errors) assert.ok(postgres.isUnavailable(error), String(error))
      }))

    it('is true when the connection is refused', () =>
      unavailable(openDatabase('postgres://plinth@127.0.0.1:1/plinth')))

    it('is true for connection, resource and shutdown errors, and false for data and syntax errors', () => {
      const of = (code: string) => postgres.isUnavailable(Object.assign(new Error(), { code }))
      for (const code of [
        '08006',
        '53100',
        '53300',
        '57P01',
        '57P03',
        '55P03',
        '57014',
        '25006',
        '40001',
        '40P01',
        '58030',
        'XX001',
      ]) {
        assert.equal(of(code), true, code)
      }
      for (const code of ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN']) {
        assert.equal(of(code), true, code)
      }
      for (const code of ['23505', '23502', '22P02', '22021', '42601', '42P01', 'XX000'])
        assert.equal(of(code), false, code)
    })
  })
})
