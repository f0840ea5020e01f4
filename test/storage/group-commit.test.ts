import assert from 'node:assert/strict'
import fs, { readlinkSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { basename } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Database, Queryable } from '../../src/storage/database.ts'
import { openDatabase } from '../../src/storage/open.ts'
import type { SqliteHandle } from '../../src/storage/sqlite/driver.ts'
import { sqlite } from '../../src/storage/sqlite/engine.ts'
import { groupCommit } from '../../src/storage/sqlite/group-commit.ts'
import { logSync } from '../../src/storage/sqlite/log-sync.ts'
import { onSqlite, type Place } from '../support/engines.ts'

onSqlite((engine) => {
  describe('group commit', () => {
    let place: Place
    let db: Database
    /** A second connection, which SQLite treats like a connection from another process. */
    let other: DatabaseSync
    beforeEach(async () => {
      place = await engine.migratedPlace()
      db = await openDatabase(place.url)
      other = new DatabaseSync(place.url.slice('file:'.length), { timeout: 0 })
    })
    afterEach(async () => {
      other.close()
      await db.close()
      await place.remove()
    })

    const insert = (tx: Queryable, name: string) => tx.insertInto('settings').values({ name, value: 'x' }).execute()
    const add = (name: string) => db.write((tx) => insert(tx, name))
    const seen = () =>
      other
        .prepare('select name from settings order by name')
        .all()
        .map(({ name }) => name)
    const outcomes = async (writes: Promise<unknown>[]) =>
      (await Promise.allSettled(writes)).map(({ status }) => status)

    it('rolls back a failed unit completely, but no other unit', async () => {
      const failing = db.write(async (tx) => {
        await insert(tx, 'b1')
        await insert(tx, 'b2')
        throw new Error('no')
      })
      assert.deepEqual(await outcomes([add('a'), failing, add('c')]), ['fulfilled', 'rejected', 'fulfilled'])
      assert.deepEqual(seen(), ['a', 'c'])
      await assert.rejects(failing, /^Error: no$/)
    })

    it('rolls back only the unit that violates a constraint, and rejects its promise with the error', async () => {
      const first = add('a')
      const twice = db.write(async (tx) => {
        await insert(tx, 'b')
        await insert(tx, 'a')
      })
      assert.deepEqual(await outcomes([first, twice, add('c')]), ['fulfilled', 'rejected', 'fulfilled'])
      await assert.rejects(twice, db.engine.isDuplicate)
      assert.deepEqual(seen(), ['a', 'c'])
    })

    it('lets a unit catch a statement error and continue', async () => {
      await add('a')
      await db.write(async (tx) => {
        await assert.rejects(insert(tx, 'a'))
        await insert(tx, 'b')
      })
      assert.deepEqual(seen(), ['a', 'b'])
    })

    it('resolves a unit only after its commit', async () => {
      const answered: string[] = []
      const note = (name: string) => () => void answered.push(name)
      let behind: { answered: string[]; seen: unknown[]; own: number } | undefined
      const last = db.write(async (tx) => {
        await turn()
        const own = await tx.selectFrom('settings').select('name').execute()
        behind = { answered: [...answered], seen: seen(), own: own.length }
      })
      // This unit is queued after `last`, but in the same event loop iteration, so both share a commit.
      const first = add('a').then(note('a'))
      await Promise.all([last.then(note('last')), first])
      assert.deepEqual(behind, { answered: [], seen: [], own: 0 })
      assert.deepEqual(answered.sort(), ['a', 'last'])
      assert.deepEqual(seen(), ['a'])
    })

    it('shows uncommitted changes to later units in the same commit, but not to other readers', async () => {
      let inside: number | undefined
      let outside: unknown[] | undefined
      await Promise.all([
        add('a'),
        db.write(async (tx) => {
          inside = (await tx.selectFrom('settings').select('name').execute()).length
          outside = seen()
        }),
      ])
      assert.equal(inside, 1)
      assert.deepEqual(outside, [])
    })

    it('resolves a write with the result of its unit', async () => {
      assert.deepEqual(await db.write(async () => ({ seven: 7 })), { seven: 7 })
      assert.equal(await db.write(async () => undefined), undefined)
    })

    for (const count of [500, 1_200]) {
      it(`stores ${count} concurrent writes in order of arrival before they resolve`, async () => {
        const ids = await Promise.all(
          Array.from({ length: count }, (_, at) =>
            db.write(async (tx) => {
              const values = { queue: 'q', payload: String(at), runAt: '2026-01-01T00:00:00.000Z' }
              return tx.insertInto('jobs').values(values).returning('id').executeTakeFirstOrThrow()
            }),
          ),
        )
        assert.deepEqual(
          ids.map(({ id }) => id),
          Array.from({ length: count }, (_, at) => at + 1),
        )
        assert.equal(other.prepare('select count(*) as count from jobs').get()?.count, count)
      })
    }

    it('stores all other writes when every third of 500 concurrent writes fails', async () => {
      const writes = Array.from({ length: 500 }, (_, at) =>
        db.write(async (tx) => {
          await insert(tx, `n${at}`)
          if (at % 3 === 0) throw new Error('no')
        }),
      )
      const kept = (await outcomes(writes)).filter((status) => status === 'fulfilled').length
      assert.equal(kept, 333)
      assert.equal(seen().length, 333)
    })

    it('waits for a lock held by another process without blocking reads', async () => {
      other.exec('begin immediate')
      other.exec("insert into settings (name, value) values ('theirs', 'x')")
      let answered = false
      const waiting = add('ours').then(() => {
        answered = true
      })
      for (let turns = 0; turns < 5; turns++) {
        await turn()
        assert.deepEqual(await db.read.selectFrom('settings').select('name').execute(), [])
      }
      assert.equal(answered, false)
      other.exec('commit')
      await waiting
      assert.deepEqual(seen(), ['ours', 'theirs'])
    })

    it('rejects a write as unavailable if the lock is not released in time, and tries to lock again for the next write', async (t) => {
      t.mock.timers.enable({ apis: ['setTimeout', 'Date'] })
      let locked = true
      const begin = () => {
        if (locked) throw Object.assign(new Error('database is locked'), { errcode: 5 })
      }
      const statement = (sql: string) => ({ run: { run: sql === 'begin immediate' ? begin : () => {} } })
      const db = {
        isOpen: true,
        get isTransaction() {
          return !locked
        },
        exec: () => {},
      }
      const handle = { db, statement }
      const write = groupCommit(handle as unknown as SqliteHandle, undefined)
      let refused: unknown
      const refusal = write(async () => 'never').catch((error) => {
        refused = error
      })
      for (let waits = 0; waits < 10_000 && refused === undefined; waits++) {
        await turn()
        t.mock.timers.tick(5)
      }
      assert.ok(sqlite.isUnavailable(refused), String(refused))
      await refusal
      locked = false
      assert.equal(await write(async () => 'done'), 'done')
    })

    describe('a commit', () => {
      let nowMs: number
      let events: number
      let commits: number[]
      let write: ReturnType<typeof groupCommit>
      beforeEach(() => {
        nowMs = 0
        events = 0
        commits = []
        const db = { isOpen: true, isTransaction: true, exec: () => {} }
        const handle = { db, statement: () => ({ run: { run: () => {} } }) }
        write = groupCommit(handle as unknown as SqliteHandle, undefined, {
          monotonic: () => nowMs,
          ioEvents: () => events,
          onSynced: (units) => commits.push(units),
        })
      })

      it('includes writes from later event loop iterations as long as each iteration has I/O', async () => {
        const writes: Promise<unknown>[] = []
        for (let iteration = 0; iteration < 5; iteration++) {
          if (iteration % 2 === 0) writes.push(write(async () => {}))
          events++
          await turn()
        }
        await Promise.all(writes)
        await write(async () => {})
        assert.deepEqual(commits, [3, 1])
      })

      it('happens after 2 ms even if every iteration has I/O', async () => {
        const writes: Promise<unknown>[] = []
        while (commits.length === 0) {
          writes.push(write(async () => {}))
          events++
          await turn()
          nowMs += 0.5
        }
        await Promise.all(writes)
        assert.equal(commits[0], 5)
      })
    })

    it('stores writes that arrive while another write is waiting for the lock', async () => {
      other.exec('begin immediate')
      const first = add('first')
      await turn()
      const later = ['a', 'b', 'c'].map(add)
      await turn()
      other.exec('rollback')
      await Promise.all([first, ...later])
      assert.deepEqual(seen(), ['a', 'b', 'c', 'first'])
    })

    it('syncs the log before a write resolves (P1)', async (t) => {
      const synced: string[] = []
      const record = (file: number) =>
        synced.push(`${basename(readlinkSync(`/proc/self/fd/${file}`))} ${seen().join()}`)
      const { fdatasync, fdatasyncSync } = fs
      t.mock.method(fs, 'fdatasyncSync', (file: number) => {
        fdatasyncSync(file)
        record(file)
      })
      t.mock.method(fs, 'fdatasync', (file: number, done: (error: Error | null) => void) => {
        fdatasync(file, (error) => {
          record(file)
          done(error)
        })
      })
      syncBuiltinESMExports()
      t.after(() => {
        t.mock.restoreAll()
        syncBuiltinESMExports()
      })
      await Promise.all([add('a'), add('b')])
      assert.deepEqual(synced, [`${basename(place.url)}-wal a,b`])
      await add('c')
      assert.equal(synced.length, 2)
    })

    it('syncs the log in another thread as long as a sync takes more than 1 ms', async () => {
      let nowMs = 0
      let durationMs = 20
      const clock = () => {
        nowMs += durationMs / 2
        return nowMs
      }
      await add('a')
      const log = logSync(place.url.slice('file:'.length), clock)
      assert.equal(log.sync(), undefined)
      durationMs = 0
      let blocked: void | Promise<void> = log.sync()
      assert.ok(blocked instanceof Promise)
      for (let count = 0; count < 10 && blocked !== undefined; count++) {
        await blocked
        blocked = log.sync()
      }
      assert.equal(blocked, undefined)
      log.close()
    })

    it('throws if the log cannot be opened', () => {
      assert.throws(() => logSync(`${place.url.slice('file:'.length)}-missing`).sync(), /ENOENT/)
    })
  })

  describe('the log sync of a commit', () => {
    let commits: number
    let syncs: { end: () => void; fail: (error: Error) => void }[]
    let failures: unknown[]
    let write: ReturnType<typeof groupCommit>
    beforeEach(() => {
      commits = 0
      syncs = []
      failures = []
      const db = { isOpen: true, isTransaction: true, exec: () => {} }
      const handle = { db, statement: () => ({ run: { run: () => {} } }) }
      write = groupCommit(handle as unknown as SqliteHandle, undefined, {
        ioEvents: () => 0,
        onCommit: () => commits++,
        sync: () => new Promise((resolve, reject) => syncs.push({ end: resolve, fail: reject })),
        onSyncFailure: (error) => failures.push(error),
      })
    })
    const turns = async () => {
      for (let count = 0; count < 5; count++) await turn()
    }

    it('completes before its units resolve; units that arrive in the meantime share the next transaction', async () => {
      const resolved: string[] = []
      const note = (name: string) => write(async () => {}).then(() => resolved.push(name))
      const first = note('first')
      await turns()
      const others = [note('second'), note('third')]
      await turns()
      assert.deepEqual([commits, resolved], [1, []])
      syncs[0]?.end()
      await first
      await turns()
      assert.deepEqual([commits, resolved], [2, ['first']])
      syncs[1]?.end()
      await Promise.all(others)
      assert.deepEqual([commits, resolved, syncs.length], [2, ['first', 'second', 'third'], 2])
    })

    it('rejects its units and all later ones if it fails, and reports the error once', async () => {
      const unit = async () => assert.equal(commits, 0, 'no unit runs after the failure')
      const isRefused = () => assert.rejects(write(unit), /^Error: EIO$/)
      const first = isRefused()
      await turns()
      const waiting = isRefused()
      syncs[0]?.fail(new Error('EIO'))
      await Promise.all([first, waiting, isRefused()])
      await turns()
      assert.deepEqual([failures.map(String), commits, syncs.length], [['Error: EIO'], 1, 1])
    })
  })
})
