import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { migrate } from '../../src/storage/migrate.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { DatabaseInUse, lockSqlite } from '../../src/storage/sqlite/lock.ts'

describe('the lock on a SQLite file in use', () => {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-lock-'))
  after(() => rmSync(folder, { recursive: true }))
  const now = () => Date.parse('2026-03-01T12:00:00.000Z')
  const url = `file:${join(folder, 'plinth.db')}`
  const inUse = (error: unknown) => {
    assert.ok(error instanceof DatabaseInUse)
    assert.equal(error.exitCode, 2)
    assert.match(error.message, new RegExp(` is used by process ${process.pid}, started at 2026-03-01T12:00:00.000Z: `))
    return true
  }

  it('rejects a second owner under any path to the file; the error names the owner and its start time', async () => {
    const db = await openDatabase(url)
    await migrate(db)
    symlinkSync(folder, `${folder}-link`)
    symlinkSync(join(folder, 'plinth.db'), join(folder, 'other.db'))
    after(() => rmSync(`${folder}-link`))
    const unlock = lockSqlite(url, now)
    for (const same of [url, join(folder, 'plinth.db'), `file:${folder}-link/plinth.db`, join(folder, 'other.db')]) {
      assert.throws(() => lockSqlite(same, now), inUse)
    }
    // The rejected attempts must not release the lock, and the lock must not block the database itself.
    assert.throws(() => lockSqlite(url, now), inUse)
    await db.write((tx) => tx.deleteFrom('products').execute())
    await db.close()
    unlock?.()
    lockSqlite(url, now)?.()
  })

  it('does not lock other files in the same folder', () => {
    const [one, other] = [lockSqlite(join(folder, 'one.db'), now), lockSqlite(join(folder, 'two.db'), now)]
    one?.()
    other?.()
  })

  it('creates its files with mode 0600', () => {
    const unlock = lockSqlite(url, now)
    for (const name of ['plinth.db.lock', 'plinth.db.pid'])
      assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600)
    assert.match(readFileSync(join(folder, 'plinth.db.pid'), 'utf8'), /^\d+ \S+Z\n$/)
    unlock?.()
  })

  it('is null for a PostgreSQL database, because several processes can share one', () => {
    assert.equal(lockSqlite('postgres://127.0.0.1/plinth', now), null)
  })
})
