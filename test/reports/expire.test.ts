import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, beforeEach, describe, it } from 'node:test'
import { type ResultStore, ResultsUnavailable } from '../../src/files/store.ts'
import { expireReports, pageRows } from '../../src/reports/expire.ts'
import type { Database } from '../../src/storage/database.ts'
import { iso, newId } from '../../src/storage/ids.ts'
import { forEachEngine } from '../support/engines.ts'

const endMs = Date.parse('2026-03-01T12:00:00.000Z')
const [resultSeconds, taskSeconds] = [60, 3_600]

forEachEngine((engine) => {
  describe('the report sweep', () => {
    let db: Database
    let nowMs: number
    let removed: string[]
    /** Errors to throw when a file is removed, by the file's key. */
    let broken: Map<string, Error>
    let reported: unknown[]
    let sweep: () => Promise<number>
    let changedAtOnce: number[]

    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())
    beforeEach(async () => {
      await db.write((tx) => tx.deleteFrom('tasks').execute())
      nowMs = endMs + resultSeconds * 1_000
      removed = []
      broken = new Map()
      reported = []
      changedAtOnce = []
      const remove = async (key: string) => {
        const error = broken.get(key)
        if (error) throw error
        removed.push(key)
      }
      // Counts the files and records that each transaction removes.
      const write: Database['write'] = async (unit) => {
        const before = await left()
        const result = await db.write(unit)
        changedAtOnce.push(before - (await left()))
        return result
      }
      const results = { remove } as unknown as ResultStore
      const onError = (error: unknown) => reported.push(error)
      sweep = expireReports({ db: { ...db, write }, results, now: () => nowMs, taskSeconds, onError })
    })

    const left = async () => {
      const rows = await db.read.selectFrom('tasks').select('resultKey').execute()
      return rows.length + rows.filter(({ resultKey }) => resultKey !== null).length
    }
    /** Adds completed tasks with the results `key-0`, `key-1` and so on, each a millisecond older than the next. */
    const fill = (count: number) =>
      db.write(async (tx) => {
        for (let from = 0; from < count; from += pageRows) {
          const rows = Array.from({ length: Math.min(pageRows, count - from) }, (_, at) => rowOf(from + at, count))
          await tx.insertInto('tasks').values(rows).execute()
        }
      })
    const rowOf = (n: number, count: number) => {
      const completedAt = iso(endMs - count + n)
      const expiresAt = iso(endMs - count + n + resultSeconds * 1_000)
      const status = 'completed' as const
      return {
        ...{ id: newId('tsk', randomBytes), reportType: 'books', format: 'csv', status, progress: 100, attempts: 1 },
        ...{ ownerClient: 'cli', ownerSubject: 'cli', versionPrefix: '', resultKey: `key-${n}`, revision: 1 },
        ...{ createdAt: completedAt, updatedAt: completedAt, completedAt, expiresAt },
      }
    }
    const keysLeft = async () =>
      (await db.read.selectFrom('tasks').select('resultKey').execute())
        .flatMap(({ resultKey }) => resultKey ?? [])
        .toSorted()

    it('removes expired results but retains their tasks, and later removes the tasks', async () => {
      await fill(3)
      assert.equal(await sweep(), 3)
      assert.deepEqual(removed.toSorted(), ['key-0', 'key-1', 'key-2'])
      assert.equal(await left(), 3)
      assert.equal(await sweep(), 0)
      nowMs = endMs + taskSeconds * 1_000
      assert.equal(await sweep(), 3)
      assert.equal(await left(), 0)
    })

    it('keeps a result that has not expired', async () => {
      await fill(3)
      nowMs = endMs + resultSeconds * 1_000 - 2
      assert.equal(await sweep(), 2)
      assert.deepEqual(await keysLeft(), ['key-2'])
    })

    it('reports a file that cannot be removed, retries it in the next run, and removes the other files', async () => {
      await fill(5)
      broken.set('key-1', new Error('EPERM'))
      assert.equal(await sweep(), 4)
      assert.deepEqual(await keysLeft(), ['key-1'])
      assert.equal(reported.length, 1)
      assert.match(String(reported[0]), /The result of the task tsk_\S+ could not be removed/)
      assert.equal((reported[0] as Error).cause, broken.get('key-1'))
      assert.equal(await sweep(), 0)
      assert.equal(reported.length, 2)
      broken.clear()
      assert.equal(await sweep(), 1)
      assert.deepEqual(await keysLeft(), [])
    })

    it('is not blocked by more than one page of files that cannot be removed, and updates at most one page of rows per transaction', async () => {
      await fill(pageRows * 2 + 200)
      for (let n = 0; n < pageRows + 100; n++) broken.set(`key-${n}`, new Error('EPERM'))
      assert.equal(await sweep(), pageRows + 100)
      assert.equal((await keysLeft()).length, pageRows + 100)
      assert.equal(reported.length, pageRows + 100)
      broken.clear()
      while ((await keysLeft()).length > 0) await sweep()
      assert.ok(Math.max(...changedAtOnce) <= pageRows, String(changedAtOnce))
    })

    it('stops after ten failures if the store is unavailable; the next run continues after the rows that failed', async () => {
      await fill(60)
      for (let n = 0; n < 20; n++) broken.set(`key-${n}`, new ResultsUnavailable('the store is away'))
      assert.equal(await sweep(), 0)
      assert.equal(reported.length, 10)
      assert.equal(await sweep(), 0)
      assert.equal(reported.length, 20)
      assert.equal(await sweep(), 40)
      broken.clear()
      assert.equal(await sweep(), 20)
      assert.deepEqual(await keysLeft(), [])
    })

    it('retains a task’s record if its result cannot be removed, and removes the other records', async () => {
      await fill(3)
      nowMs = endMs + taskSeconds * 1_000
      broken.set('key-0', new Error('EPERM'))
      await sweep()
      assert.equal(await left(), 2)
      assert.deepEqual(await keysLeft(), ['key-0'])
      broken.clear()
      await sweep()
      assert.equal(await left(), 0)
    })
  })
})
