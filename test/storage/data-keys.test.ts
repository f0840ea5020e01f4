import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, it } from 'node:test'
import pg from 'pg'
import { type LoadedKeys, openSealer } from '../../src/storage/data-keys/open.ts'
import { storedDataKeys, unwrapped, wrapped } from '../../src/storage/data-keys/stored.ts'
import type { Database } from '../../src/storage/database.ts'
import { derivedKeys, sealer } from '../../src/storage/encryption.ts'
import { sealedColumns } from '../../src/stores.ts'
import { forEachEngine, onPostgres } from '../support/engines.ts'
import { eventually } from '../support/service.ts'

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

/** Stores a secret in the format of releases without data keys. */
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
      const rows = await storedDataKeys(db.read)
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

    it('loads changed keys on the next reload if the previous reload could not read the master key', async () => {
      let own: Buffer | undefined = key
      const masterKey = () => {
        if (own === undefined) throw new Error('master.key cannot be read')
        return own
      }
      const changes: LoadedKeys[] = []
      const random = (size: number) => randomBytes(size)
      const options = { columns: sealedColumns, now: () => at, onChanged: (keys: LoadedKeys) => changes.push(keys) }
      const opened = await openSealer(db, { ...options, masterKey, random })
      const keys = unwrapped(await storedDataKeys(db.read), key)
      await db.write(async (tx) => {
        await tx.deleteFrom('dataKeys').execute()
        await tx
          .insertInto('dataKeys')
          .values(wrapped(keys, otherKey, 2, random))
          .execute()
      })
      own = undefined
      await assert.rejects(opened.reload(), /cannot be read/)
      own = otherKey
      await opened.reload()
      assert.deepEqual(changes, [{ ids: [1], sealId: 1 }])
    })

    it('rejects a different master key with exit code 2, and changes nothing', async () => {
      await open(db, key)
      const before = await storedDataKeys(db.read)
      await assert.rejects(open(db, otherKey), refused)
      assert.deepEqual(await storedDataKeys(db.read), before)
    })

    it('reads secrets and digests from releases without data keys, and writes secrets that these releases can read', async () => {
      await storeAsBefore(db)
      const { value } = await db.read.selectFrom('settings').select('value').executeTakeFirstOrThrow()
      assert.match(value, /^v1\./)
      const { sealer: upgraded } = await open(db, key)
      assert.equal(upgraded.open(value, 'settings:cookie_keys'), '["cookie"]')
      assert.equal(upgraded.digest('hunter2', 'a:1'), sealer(key, randomBytes).digest('hunter2', 'a:1'))
      assert.match(upgraded.seal('hunter2', 'a:1'), /^v1\./)
    })

    it('rejects a different master key with exit code 2 at the first start after an upgrade, and stores no key', async () => {
      await storeAsBefore(db)
      await assert.rejects(open(db, otherKey), refused)
      assert.deepEqual(await storedDataKeys(db.read), [])
      await open(db, key)
    })
  })
})

onPostgres((engine) => {
  describe('openSealer in two processes that start at the same time', () => {
    it('uses the keys that the other process has just stored', async () => {
      const [db, model] = [await engine.database(), await engine.database()]
      const other = new pg.Client({ connectionString: db.url })
      await other.connect()
      try {
        const { sealer: first } = await open(model, key)
        const value = first.seal('["cookie"]', 'settings:cookie_keys')
        // The service finds no keys, then waits for this lock while it checks whether there are secrets.
        await other.query('begin; lock table signing_keys in access exclusive mode')
        const opening = open(db, key)
        await eventually('the service waits for the lock', async () => {
          const query = `select 1 from pg_locks where relation = 'signing_keys'::regclass and not granted`
          return (await other.query(query)).rows.length > 0
        })
        for (const row of await storedDataKeys(model.read)) {
          const { id, generation, fingerprint, purpose, wrapped: text, createdAt, activatedAt } = row
          await other.query(
            `insert into data_keys (id, generation, fingerprint, purpose, wrapped, created_at, activated_at)
             values ($1, $2, $3, $4, $5, $6, $7)`,
            [id, generation, fingerprint, purpose, text, createdAt, activatedAt],
          )
        }
        await other.query(`insert into settings (name, value) values ('cookie_keys', $1)`, [value])
        await other.query(`insert into clients (id, name, scopes, grants, redirect_uris, created_at)
          values ('c1', 'C', '', '', '', '')`)
        await other.query('commit')
        const { sealer: second } = await opening
        assert.equal(second.open(value, 'settings:cookie_keys'), '["cookie"]')
      } finally {
        await other.end()
        await db.close()
        await model.close()
      }
    })
  })
})
