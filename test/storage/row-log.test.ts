import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { type ChangeLogReader, changeLogReader, type LoggedChange } from '../../src/storage/row-changes/read.ts'
import { maxPerEntry, type NewChange } from '../../src/storage/row-changes/row-log.ts'
import { forEachEngine } from '../support/engines.ts'

const createdAt = '2026-01-01T00:00:00.000Z'

const rowOf = (id: number, revision: number, text = `text ${revision}`) => ({ id, revision, text })

const update = (id: number, revision: number, text?: string): NewChange => ({
  ...{ noun: 'note', change: 'updated', id, revision, createdAt },
  before: JSON.stringify(rowOf(id, revision - 1)),
  after: JSON.stringify(rowOf(id, revision, text)),
})

forEachEngine((engine) => {
  describe('the log of changes to rows', () => {
    let db: Database
    let log: ChangeLogReader
    before(async () => {
      db = await engine.database()
      log = changeLogReader(db)
    })
    after(() => db.close())

    const write = (...changes: NewChange[]) =>
      db.write(async (tx) => {
        for (const change of changes) db.rowLog.add(tx, change)
      })
    /** Returns all changes after a position. */
    const changesAfter = async (from: number) => {
      const found: LoggedChange[] = []
      for (let at = from; ; ) {
        const { entries, isEnd } = await log.after(at)
        found.push(...entries.flatMap(({ changes }) => changes))
        at = entries.at(-1)?.at ?? at
        if (isEnd) return found
      }
    }
    const idsAfter = async (at: number) => (await changesAfter(at)).map(({ id, after }) => [id, after?.revision])

    it('contains the changes of committed transactions, but not of a failed one', async () => {
      const { at } = await log.head()
      const failing = db.write(async (tx) => {
        db.rowLog.add(tx, update(2, 1))
        throw new Error('refused')
      })
      const results = await Promise.allSettled([write(update(1, 1)), failing, write(update(3, 1))])
      assert.deepEqual(
        results.map(({ status }) => status),
        ['fulfilled', 'rejected', 'fulfilled'],
      )
      assert.deepEqual((await idsAfter(at)).toSorted(), [
        [1, 1],
        [3, 1],
      ])
    })

    it('contains the row before and after each change', async () => {
      const { at } = await log.head()
      await write({ ...update(1, 1), change: 'created', before: null }, update(1, 2))
      await write({ ...update(1, 2), change: 'deleted', after: null, before: JSON.stringify(rowOf(1, 2)) })
      const logged = await changesAfter(at)
      assert.deepEqual(
        logged.map(({ change, before, after }) => [change, before, after]),
        [
          ['created', null, rowOf(1, 1)],
          ['updated', rowOf(1, 1), rowOf(1, 2)],
          ['deleted', rowOf(1, 2), null],
        ],
      )
    })

    it(`can be read from any change of a transaction with more than ${maxPerEntry} changes onward`, async () => {
      const { at: start } = await log.head()
      const revisions = Array.from({ length: 2 * maxPerEntry + 3 }, (_, at) => at + 1)
      await write(...revisions.map((revision) => update(4, revision)))
      const logged = await changesAfter(start)
      assert.deepEqual(
        logged.map(({ after }) => after?.revision),
        revisions,
      )
      for (const [index, { at, tag }] of logged.entries()) {
        const found = await log.find(at, tag)
        assert.equal(found?.at, at)
        assert.deepEqual(
          (await idsAfter(at)).map(([, revision]) => revision),
          revisions.slice(index + 1),
        )
      }
      assert.equal((await log.head()).at, logged.at(-1)?.at)
    })

    it('returns each change made on several connections once, in commit order', async () => {
      const { at } = await log.head()
      const other = await openDatabase(db.url)
      try {
        for (const [revision, one] of [db, other, other, db, db, other].entries())
          await one.write(async (tx) => one.rowLog.add(tx, update(10, revision)))
      } finally {
        await other.close()
      }
      const revisions = (await idsAfter(at)).map(([, revision]) => revision)
      assert.deepEqual(revisions, [0, 1, 2, 3, 4, 5])
    })

    it('returns undefined for a position with a different tag, or one beyond the last entry', async () => {
      const { at, tag } = await log.head()
      assert.equal(await log.find(at, `${tag}x`), undefined)
      assert.equal(await log.find(at + 10 * maxPerEntry, tag), undefined)
    })

    describe('loggedRow', () => {
      const rowAt = (id: number, revision: number, noun = 'note') =>
        db.write(async (tx) => db.rowLog.loggedRow(tx, noun, id, revision))

      it('returns the last committed row if the id, the revision and the noun match', async () => {
        await write(update(5, 1))
        await write(update(5, 2))
        assert.deepEqual(await rowAt(5, 2), update(5, 2).after)
        assert.deepEqual([await rowAt(5, 1), await rowAt(5, 3), await rowAt(5, 2, 'other')], Array(3).fill(null))
      })

      it('returns the row as last changed by the same transaction', async () => {
        const found = await db.write(async (tx) => {
          db.rowLog.add(tx, update(6, 1))
          db.rowLog.add(tx, update(6, 2))
          return db.rowLog.loggedRow(tx, 'note', 6, 9)
        })
        assert.deepEqual(found, update(6, 2).after)
      })

      it('ignores the changes of a failed transaction', async () => {
        await write(update(7, 1))
        const failing = db.write(async (tx) => {
          db.rowLog.add(tx, update(7, 2, 'refused'))
          throw new Error('refused')
        })
        await assert.rejects(failing, /^Error: refused$/)
        assert.equal(await rowAt(7, 2), null)
        assert.deepEqual(await rowAt(7, 1), update(7, 1).after)
      })

      it('returns null for a deleted row', async () => {
        await write(update(8, 1))
        await write({ ...update(8, 2), change: 'deleted', after: null })
        assert.equal(await rowAt(8, 1), null)
      })

      it('returns null for a row of more than 1,024 characters', async () => {
        await write(update(9, 1, 'x'.repeat(1_024)))
        assert.equal(await rowAt(9, 1), null)
      })
    })
  })
})
