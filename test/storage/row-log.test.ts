import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import { type ChangeLogReader, changeLogReader } from '../../src/storage/row-changes/read.ts'
import { maxPerEntry, type NewChange } from '../../src/storage/row-changes/row-log.ts'
import { forEachEngine } from '../support/engines.ts'

const createdAt = '2026-01-01T00:00:00.000Z'

const update = (id: number, revision: number, text = `text ${revision}`): NewChange => ({
  ...{ noun: 'note', change: 'updated', id, createdAt },
  before: { id, revision: revision - 1, text: 'old', kept: 1 },
  after: { id, revision, text, kept: 1 },
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
    const idsAfter = async (at: number) =>
      (await log.after(at)).flatMap(({ changes }) => changes).map(({ id, after }) => [id, after?.revision])

    it('contains the changes of committed transactions, and none of a failed one', async () => {
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

    it('stores of a row before an update only the changed members', async () => {
      const { at } = await log.head()
      await write(update(1, 8))
      const [entry] = await log.after(at)
      assert.deepEqual(
        entry?.changes.map(({ before, after }) => [before, after]),
        [
          [
            { revision: 7, text: 'old' },
            { id: 1, revision: 8, text: 'text 8', kept: 1 },
          ],
        ],
      )
    })

    it(`continues after any change of a transaction with more than ${maxPerEntry} changes`, async () => {
      const { at: start } = await log.head()
      const revisions = Array.from({ length: 2 * maxPerEntry + 3 }, (_, at) => at + 1)
      await write(...revisions.map((revision) => update(4, revision)))
      const logged = (await log.after(start)).flatMap(({ changes }) => changes)
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

    it('does not find a position with another tag, or one that no entry has', async () => {
      const { at, tag } = await log.head()
      assert.equal(await log.find(at, `${tag}x`), undefined)
      assert.equal(await log.find(at + 10 * maxPerEntry, tag), undefined)
    })

    describe('loggedRow', () => {
      const rowAt = (id: number, revision: number, noun = 'note') =>
        db.write(async (tx) => db.rowLog.loggedRow(tx, noun, id, revision))

      it('returns the last committed row, but only at its revision, for its noun', async () => {
        await write(update(5, 1))
        await write(update(5, 2))
        assert.deepEqual(await rowAt(5, 2), update(5, 2).after)
        assert.deepEqual([await rowAt(5, 1), await rowAt(5, 3), await rowAt(5, 2, 'other')], Array(3).fill(undefined))
      })

      it('returns the row as the same transaction has left it', async () => {
        const found = await db.write(async (tx) => {
          db.rowLog.add(tx, update(6, 1))
          db.rowLog.add(tx, update(6, 2))
          return db.rowLog.loggedRow(tx, 'note', 6, 9)
        })
        assert.deepEqual(found, update(6, 2).after)
      })

      it('returns nothing that a failed transaction has logged', async () => {
        await write(update(7, 1))
        const failing = db.write(async (tx) => {
          db.rowLog.add(tx, update(7, 2, 'refused'))
          throw new Error('refused')
        })
        await assert.rejects(failing, /^Error: refused$/)
        assert.equal(await rowAt(7, 2), undefined)
        assert.deepEqual(await rowAt(7, 1), update(7, 1).after)
      })

      it('returns no deleted row', async () => {
        await write(update(8, 1))
        await write({ ...update(8, 2), change: 'deleted', after: null })
        assert.equal(await rowAt(8, 1), undefined)
      })

      it('returns no row whose change has more than 1,024 characters', async () => {
        await write(update(9, 1, 'x'.repeat(1_024)))
        assert.equal(await rowAt(9, 1), undefined)
      })
    })
  })
})
