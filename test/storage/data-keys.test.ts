import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { openSealer } from '../../src/storage/data-keys/open.ts'
import { storedKeys } from '../../src/storage/data-keys/stored.ts'
import type { Database } from '../../src/storage/database.ts'
import { derivedKeys, sealer } from '../../src/storage/encryption.ts'
import { sealedColumns } from '../../src/stores.ts'
import { forEachEngine } from '../support/engines.ts'

const [key, otherKey] = [Buffer.alloc(32, 7), Buffer.alloc(32, 8)]
const at = Date.parse('2026-03-01T12:00:00Z')
const refused = { name: 'Error', message: /is not the master key that encrypted it$/, exitCode: 2 }

const open = (db: Database, masterKey: Buffer) =>
  openSealer(db, {
    masterKey: () => masterKey,
    columns: sealedColumns,
    now: () => at,
    random: (size) => randomBytes(size),
  })

/** Stores a secret as releases without data keys did. */
async function storeAsBefore(db: Database): Promise<void> {
  const value = sealer(key, randomBytes).seal('["cookie"]', 'settings:cookie_keys')
  await db.write(async (tx) => {
    await tx.insertInto('settings').values({ name: 'cookie_keys', value }).execute()
    await tx
      .insertInto('clients')
      .values({ id: 'c1', name: 'C', scopes: '', grants: '', redirectUris: '', createdAt: '' } as never)
      .execute()
  })
}

forEachEngine((engine) => {
  describe('openSealer', () => {
    let db: Database
    beforeEach(async () => {
      db = await engine.database()
    })
    afterEach(() => db.close())

    it('creates random keys for a new database, once for all processes', async () => {
      const [one, other] = await Promise.all([open(db, key), open(db, key)])
      assert.equal(other.sealer.open(one.sealer.seal('hunter2', 'a:1'), 'a:1'), 'hunter2')
      assert.equal(one.sealer.digest('hunter2', 'a:1'), other.sealer.digest('hunter2', 'a:1'))
      const rows = await storedKeys(db.read)
      assert.deepEqual(
        rows.map(({ id, generation, purpose }) => [id, generation, purpose]),
        [
          [1, 1, 'seal'],
          [2, 1, 'digest'],
        ],
      )
      const { sealer: again } = await open(db, key)
      assert.equal(again.open(one.sealer.seal('hunter2', 'a:1'), 'a:1'), 'hunter2')
      assert.notEqual(again.digest('hunter2', 'a:1'), sealer(key, randomBytes).digest('hunter2', 'a:1'))
      const texts = JSON.stringify(rows)
      for (const secret of [key, ...Object.values(derivedKeys(key))]) {
        for (const form of ['hex', 'base64', 'base64url'] as const)
          assert.ok(!texts.includes(secret.toString(form).slice(0, 40)))
      }
    })

    it('exit code 2 for another master key, and changes nothing', async () => {
      await open(db, key)
      const before = await storedKeys(db.read)
      await assert.rejects(open(db, otherKey), refused)
      assert.deepEqual(await storedKeys(db.read), before)
    })

    it('keeps the secrets and digests of releases without data keys, and writes secrets that they can read', async () => {
      await storeAsBefore(db)
      const { value } = await db.read.selectFrom('settings').select('value').executeTakeFirstOrThrow()
      assert.match(value, /^v1\./)
      const { sealer: upgraded } = await open(db, key)
      assert.equal(upgraded.open(value, 'settings:cookie_keys'), '["cookie"]')
      assert.equal(upgraded.digest('hunter2', 'a:1'), sealer(key, randomBytes).digest('hunter2', 'a:1'))
      assert.match(upgraded.seal('hunter2', 'a:1'), /^v1\./)
    })

    it('exit code 2 for another master key at the first start after the upgrade, and stores no key', async () => {
      await storeAsBefore(db)
      await assert.rejects(open(db, otherKey), refused)
      assert.deepEqual(await storedKeys(db.read), [])
      await open(db, key)
    })
  })
})
