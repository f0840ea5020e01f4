import assert from 'node:assert/strict'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { sql } from 'kysely'
import type { ChangeTracker, Database } from '../../src/storage/database.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { releaseThread, type SqliteMemory, sqliteMemory } from '../../src/storage/sqlite/open.ts'
import { threadLock } from '../../src/storage/thread-lock.ts'
import { onSqlite, type Place } from '../support/engines.ts'
import type { WriterData } from './writer-thread.ts'

onSqlite((engine) => {
  describe('several threads that write to one SQLite file', () => {
    let place: Place
    let memory: SqliteMemory
    let db: Database
    let changes: ChangeTracker
    beforeEach(async () => {
      place = await engine.migratedPlace()
      memory = sqliteMemory()
      db = await openDatabase(place.url, { shared: { memory, thread: 1 } })
      assert.ok(db.changes)
      changes = db.changes
    })
    afterEach(async () => {
      await db.close()
      await place.remove()
    })

    /** Runs a writer thread until it exits; returns the number of its commits. */
    const writer = async (thread: number, names: string[], id: number | null = null): Promise<number> => {
      const workerData: WriterData = { url: place.url, memory, thread, names, id }
      const worker = new Worker(new URL('writer-thread.ts', import.meta.url), { workerData })
      // Both events can occur in the same iteration of the event loop.
      const [[commits]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')])
      return commits
    }
    const commitsInFile = async () => {
      const { rows } = await sql<{ user_version: number }>`pragma user_version`.execute(db.read)
      return Number(Object.values(rows[0] ?? {})[0])
    }
    const names = (thread: number) => Array.from({ length: 200 }, (_, at) => `Lamp ${thread}-${at}`)

    it('lose no writes, and count every commit once', async () => {
      const before = await commitsInFile()
      const commits = await Promise.all([2, 3, 4].map((thread) => writer(thread, names(thread))))
      const rows = await db.read.selectFrom('products').select('name').execute()
      assert.deepEqual(rows.map(({ name }) => name).sort(), [2, 3, 4].flatMap(names).sort())
      assert.equal(
        (await commitsInFile()) - before,
        commits.reduce((sum, count) => sum + count, 0),
      )
    })

    it('see which rows another thread has changed', async () => {
      await writer(2, ['Lamp', 'Chair', 'Table'])
      const asOf = changes.last()
      await writer(2, ['Desk'], 2)
      assert.deepEqual(
        [1, 2, 3].filter((id) => changes.lastOfRow('products', id) > asOf),
        [2],
      )
      assert.ok(changes.lastOf('products') > asOf)
      assert.equal(changes.lastOf('users') > asOf, false)
    })

    it('treat all rows and tables as changed after a write on a connection that does not share their memory', async () => {
      await writer(2, ['Lamp'])
      const asOf = changes.last()
      const command = await openDatabase(place.url)
      await command.write((tx) => tx.deleteFrom('products').execute())
      await command.close()
      assert.ok(changes.lastOfRow('products', 1) > asOf)
      assert.ok(changes.lastOf('users') > asOf)
    })

    it('can write once the lock of a terminated thread is released', async () => {
      assert.ok(threadLock(memory.lock, 2).tryLock())
      const written = db.write((tx) => tx.deleteFrom('products').execute())
      releaseThread(memory, 3)
      assert.equal(threadLock(memory.lock, 4).tryLock(), false)
      releaseThread(memory, 2)
      await written
      assert.ok(threadLock(memory.lock, 4).tryLock())
    })
  })
})
