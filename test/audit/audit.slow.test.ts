import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, beforeEach, describe, it } from 'node:test'
import { sql } from 'kysely'
import { openAudit } from '../../src/audit/buffer.ts'
import { appendAudit, auditRecorder } from '../../src/audit/chain.ts'
import { verifyAudit } from '../../src/audit/verify.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer as makeSealer } from '../../src/storage/encryption.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { forEachEngine } from '../support/engines.ts'

const sealer = makeSealer(Buffer.alloc(32, 7), randomBytes)
const at = '2026-11-21T10:00:00.000Z'
const start = Date.parse(at)

forEachEngine((engine) => {
  let db: Database
  beforeEach(async () => {
    await db?.close()
    db = await engine.database()
  })
  after(() => db.close())

  const rows = () => db.read.selectFrom('auditEntries').selectAll().orderBy('sequence').execute()
  const add = (count: number, event = 'client.created' as const) =>
    db.write((tx) =>
      appendAudit(
        tx,
        sealer,
        Array.from({ length: count }, (_, n) => ({ event, at, target: `cli_${n}` })),
      ),
    )
  /** Changes the log with the database owner's rights, but without the master key. */
  const tamper = async (statement: string) => {
    const guards = {
      sqlite: ['drop trigger audit_entries_no_update', 'drop trigger audit_entries_no_delete'],
      postgres: ['append_only', 'no_delete'].map((name) => `drop trigger audit_entries_${name} on audit_entries`),
    }[engine.name]
    await db.write(async (tx) => {
      for (const text of [...guards, statement]) await sql.raw(text).execute(tx)
    })
  }

  describe('the audit log (S-17)', () => {
    it('numbers entries from 1 without gaps, and writes each entry in the transaction that it describes', async () => {
      const record = auditRecorder(sealer, () => start)
      await db.write((tx) => record(tx, { event: 'key.created', target: 'a', details: { name: 'x' } }))
      const undone = db.write(async (tx) => {
        await record(tx, { event: 'key.created', target: 'b' })
        throw new Error('undone')
      })
      await assert.rejects(undone, /undone/)
      await db.write((tx) => record(tx, { event: 'key.revoked', target: 'a' }))
      assert.deepEqual(
        (await rows()).map(({ sequence, target, event }) => [sequence, target, event]),
        [
          [1, 'a', 'key.created'],
          [2, 'a', 'key.revoked'],
        ],
      )
    })

    it('forms one valid chain when 80 transactions run concurrently on two connections', async () => {
      const other = await openDatabase(db.url)
      const record = auditRecorder(sealer, () => start)
      const one = (database: Database, n: number) =>
        database.write((tx) => record(tx, { event: 'webhook.created', target: `whk_${n}` }))
      await Promise.all(Array.from({ length: 80 }, (_, n) => one(n % 2 ? db : other, n)))
      await other.close()
      const found = await rows()
      assert.equal(new Set(found.map(({ target }) => target)).size, 80)
      const verdict = await verifyAudit(db, sealer)
      assert.ok(verdict.whole)
      assert.deepEqual([verdict.sequence, verdict.hash], [80, found.at(-1)?.hash])
    })

    it('rejects updates and deletes of entries', async () => {
      await add(1)
      for (const statement of ["update audit_entries set event = 'x'", 'delete from audit_entries']) {
        await assert.rejects(
          db.write((tx) => sql.raw(statement).execute(tx)),
          /append-only/,
        )
      }
      assert.equal((await rows()).length, 1)
    })

    const attacks: [what: string, statement: string, sequence: number, reason: RegExp][] = [
      ['a changed entry', "update audit_entries set client_id = 'x' where sequence = 3", 3, /altered/],
      ['a changed time', "update audit_entries set at = '2020' where sequence = 1", 1, /altered/],
      ['a removed entry', 'delete from audit_entries where sequence = 2', 2, /missing/],
      ['removed entries at the end', 'delete from audit_entries where sequence > 4', 5, /missing/],
      [
        "an entry with another entry's target",
        'update audit_entries set target = (select target from audit_entries where sequence = 3) where sequence = 2',
        2,
        /altered/,
      ],
    ]
    for (const [what, statement, sequence, reason] of attacks) {
      it(`verify detects ${what}`, async () => {
        await add(6)
        await tamper(statement)
        const verdict = await verifyAudit(db, sealer)
        assert.ok(!verdict.whole)
        assert.equal(verdict.sequence, sequence)
        assert.match(verdict.reason, reason)
      })
    }

    it('verify detects entries chained without the master key', async () => {
      const stranger = makeSealer(Buffer.alloc(32, 8), randomBytes)
      await db.write((tx) => appendAudit(tx, stranger, [{ event: 'key.created', at }]))
      assert.deepEqual(await verifyAudit(db, sealer), { whole: false, sequence: 1, reason: 'was altered' })
    })

    it('verify detects a truncated log with a matching head, using an anchor recorded earlier', async () => {
      await add(4)
      const noted = await verifyAudit(db, sealer)
      assert.ok(noted.whole)
      const third = (await rows())[2]?.hash
      await tamper(`delete from audit_entries where sequence = 4`)
      await db.write((tx) => sql.raw(`update audit_head set sequence = 3, hash = '${third}'`).execute(tx))
      assert.ok((await verifyAudit(db, sealer)).whole)
      const verdict = await verifyAudit(db, sealer, noted)
      assert.ok(!verdict.whole)
      assert.match(verdict.reason, /ends before/)
      await add(1)
      const replaced = await verifyAudit(db, sealer, noted)
      assert.ok(!replaced.whole && /not match the given hash/.test(replaced.reason))
    })
  })

  describe('the background writer', () => {
    const buffer = (database = db) => {
      const clock = { now: start }
      const faults: unknown[] = []
      const audit = openAudit({ db: database, sealer, now: () => clock.now, onError: (error) => faults.push(error) })
      return { ...audit, clock, faults }
    }

    it('stores entries in order and in one chain when flushed', async () => {
      const { note, flush } = buffer()
      for (let n = 0; n < 1_200; n++) note({ event: 'token.granted', clientId: `cli_${n}` })
      await flush()
      assert.deepEqual(
        (await rows()).map(({ clientId }) => clientId),
        Array.from({ length: 1_200 }, (_, n) => `cli_${n}`),
      )
      assert.ok((await verifyAudit(db, sealer)).whole)
    })

    it('records the first refusal of each kind per minute, and counts further ones', async () => {
      const { tally, flush, clock } = buffer()
      const denied = { event: 'access.denied', clientId: 'cli_x', target: 'GET /users' } as const
      const other = { ...denied, target: 'GET /api/audit' }
      for (let n = 0; n < 500; n++) tally({ ...denied, requestId: `r${n}` })
      for (let n = 0; n < 3; n++) tally({ ...other, requestId: `o${n}` })
      clock.now += 60_000
      tally({ ...denied, requestId: 'later' })
      await flush()
      const recorded = (await rows()).map(({ target, requestId, details }) => [target, requestId, details])
      assert.deepEqual(recorded, [
        ['GET /users', 'r0', null],
        ['GET /api/audit', 'o0', null],
        ['GET /users', null, '{"more":499}'],
        ['GET /api/audit', null, '{"more":2}'],
        ['GET /users', 'later', null],
      ])
    })

    it('records at most 60 kinds of refusals per minute, and counts the rest', async () => {
      const { tally, flush } = buffer()
      for (let n = 0; n < 10_000; n++) tally({ event: 'credential.plaintext', address: `192.0.2.${n}` })
      await flush()
      const found = await rows()
      assert.equal(found.length, 61)
      assert.deepEqual([found.at(-1)?.event, found.at(-1)?.details], ['audit.overflow', '{"entries":9940}'])
    })

    it('records the first event of each of 1,100 clients, and counts repeated events', async () => {
      const { repeated, flush } = buffer()
      const granted = (n: number) => ({ event: 'token.granted', clientId: `cli_${n}` }) as const
      for (let n = 0; n < 1_100; n++) repeated({ ...granted(n), requestId: `r${n}` })
      for (let n = 0; n < 20; n++) repeated({ ...granted(0), requestId: 'again' })
      await flush()
      const found = await rows()
      assert.equal(found.length, 1_101)
      assert.equal(new Set(found.map(({ clientId }) => clientId)).size, 1_100)
      assert.deepEqual([found.at(-1)?.clientId, found.at(-1)?.details], ['cli_0', '{"more":20}'])
    })

    it('queues up to 10,000 entries while the database is unavailable, and records how many it dropped', async () => {
      let away = true
      const failing: Database = { ...db, write: (unit) => (away ? Promise.reject(new Error('away')) : db.write(unit)) }
      const { note, flush } = buffer(failing)
      for (let n = 0; n < 10_050; n++) note({ event: 'token.granted' })
      await assert.rejects(flush(), /away/)
      away = false
      await flush()
      const [{ count }] = (await sql<{ count: number }>`select count(*) as count from audit_entries`.execute(db.read))
        .rows as [{ count: number }]
      assert.equal(Number(count), 10_001)
      assert.equal((await rows()).at(-1)?.details, '{"entries":50}')
    })
  })
})
