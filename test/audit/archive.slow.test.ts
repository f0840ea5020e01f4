import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, describe, it } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import { sql } from 'kysely'
import { type AuditArchiveOptions, archiveAudit } from '../../src/audit/archive-sweep.ts'
import { type ArchiveStore, auditArchives } from '../../src/audit/archives.ts'
import { appendAudit, auditView } from '../../src/audit/chain.ts'
import { verifyArchives, verifyAudit } from '../../src/audit/verify.ts'
import { folderResults } from '../../src/files/folder.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer as makeSealer } from '../../src/storage/encryption.ts'
import { maxSwept } from '../../src/storage/sweep.ts'
import { forEachEngine } from '../support/engines.ts'

const sealer = makeSealer(Buffer.alloc(32, 7), randomBytes)
const hourMs = 3_600_000

forEachEngine((engine) => {
  let db: Database
  let folder: string
  let store: ArchiveStore
  let clock: { ms: number }
  beforeEach(async () => {
    await db?.close()
    if (folder) rmSync(folder, { recursive: true })
    db = await engine.database()
    folder = mkdtempSync(join(tmpdir(), 'plinth-archive-'))
    store = folderResults(folder)
    clock = { ms: Date.parse('2026-11-23T12:00:00.000Z') }
  })
  after(async () => {
    await db.close()
    rmSync(folder, { recursive: true })
  })

  const add = (at: string, count: number) =>
    db.write((tx) =>
      appendAudit(
        tx,
        sealer,
        Array.from({ length: count }, (_, n) => ({
          ...{ event: 'client.created' as const, at, target: `cli_${n}`, address: '192.0.2.1' },
          ...(n % 2 === 0 && { details: { name: `Zoë "${n}"\n`, scopes: ['a', 'b'], count: n } }),
        })),
      ),
    )
  const sweepOf = (changes: Partial<AuditArchiveOptions> = {}) =>
    archiveAudit({ db, store, sealer, months: 13, now: () => clock.ms, clock: () => clock.ms, ...changes })
  /** Runs the sweep until it finds nothing to do. */
  const archiveAll = async (changes: Partial<AuditArchiveOptions> = {}) => {
    const sweep = sweepOf(changes)
    let deleted = 0
    for (let more = 1; more > 0; ) {
      more = await sweep()
      deleted += more
    }
    return deleted
  }
  const rows = () => db.read.selectFrom('auditEntries').selectAll().orderBy('sequence').execute()
  const archives = () => auditArchives(db)
  /** Removes the hash from archive names. */
  const withoutHash = (text: string) => text.replaceAll(/(audit-\d{4}-\d\d)-[\w-]{8}(?=\.ndjson\.gz)/g, '$1')
  const file = (month: string) =>
    join(folder, readdirSync(folder).find((name) => name.startsWith(`audit-${month}-`)) ?? 'none')
  const linesOf = (month: string) =>
    gunzipSync(readFileSync(file(month)))
      .toString()
      .trimEnd()
      .split('\n')
  const rewrite = (month: string, lines: readonly string[]) =>
    writeFileSync(file(month), gzipSync(lines.map((line) => `${line}\n`).join('')))

  describe('archiving and verifying the audit log (S-17)', () => {
    it('writes each old month to a separate archive in the API’s format, and deletes its entries from the database', async () => {
      await add('2025-08-31T23:59:59.999Z', 3)
      await add('2025-09-01T00:00:00.000Z', 2)
      await add('2025-10-01T00:00:00.000Z', 4)
      const before = await rows()
      assert.equal(await archiveAll(), 5)
      assert.deepEqual(readdirSync(folder).toSorted(), [
        `audit-2025-08-${before[2]?.hash.slice(0, 8)}.ndjson.gz`,
        `audit-2025-09-${before[4]?.hash.slice(0, 8)}.ndjson.gz`,
      ])
      const lines = [...linesOf('2025-08'), ...linesOf('2025-09')].map((line) => JSON.parse(line))
      assert.deepEqual(lines, before.slice(0, 5).map(auditView))
      assert.deepEqual((await rows()).map(({ sequence, event, target }) => [sequence, event, target]).slice(3), [
        [9, 'client.created', 'cli_3'],
        [10, 'audit.archived', '2025-08'],
        [11, 'audit.archived', '2025-09'],
      ])
      assert.deepEqual(
        (await archives()).map(({ month, firstSequence, lastSequence }) => [month, firstSequence, lastSequence]),
        [
          ['2025-08', 1, 3],
          ['2025-09', 4, 5],
        ],
      )
    })

    it('verifies the whole chain across archives and database, or only the newest entries', async () => {
      await add('2025-03-10T00:00:00.000Z', 1_100)
      await add('2025-04-10T00:00:00.000Z', 3)
      await add('2026-11-01T00:00:00.000Z', 3)
      const before = await rows()
      await archiveAll()
      const verdict = await verifyAudit(db, sealer)
      assert.deepEqual([verdict.whole, verdict.sequence], [true, 1_108])
      const archived = await verifyArchives(db, sealer, store)
      assert.deepEqual(archived, { whole: true, archives: 2, sequence: 1_103, hash: before[1_102]?.hash })
      assert.deepEqual(await verifyAudit(db, sealer, undefined, 1_000), verdict)
      assert.deepEqual(await verifyAudit(db, sealer, undefined, 2), verdict)
    })

    it('a wrong expected hash is detected by verifyAudit for an entry in the database, and by verifyArchives for an archived entry', async () => {
      await add('2025-03-10T00:00:00.000Z', 3)
      await add('2026-11-01T00:00:00.000Z', 3)
      const anchors = (await rows()).map(({ sequence, hash }) => ({ sequence, hash }))
      await archiveAll()
      for (const anchor of anchors) {
        const wrong = { ...anchor, hash: 'x'.repeat(43) }
        const verified = async (one: typeof anchor) => [
          (await verifyAudit(db, sealer, one)).whole,
          (await verifyArchives(db, sealer, store, one)).whole,
        ]
        assert.deepEqual(await verified(anchor), [true, true])
        assert.deepEqual(await verified(wrong), [anchor.sequence < 3, anchor.sequence > 3])
      }
    })

    it('keeps all entries in the database if none is old enough, or if `months` is null', async () => {
      await add('2025-10-01T00:00:00.000Z', 3)
      assert.equal(await archiveAll(), 0)
      assert.equal(await archiveAll({ months: null, now: () => Date.parse('2036-01-01') }), 0)
      assert.deepEqual([(await rows()).length, readdirSync(folder)], [3, []])
    })

    it('puts an entry that was written late into the next archive, and creates no archive for months without entries', async () => {
      await add('2025-01-31T23:59:59.000Z', 1)
      await add('2025-02-01T00:00:00.000Z', 1)
      await add('2025-01-31T23:59:59.900Z', 1)
      await add('2025-05-01T00:00:00.000Z', 1)
      await add('2026-11-01T00:00:00.000Z', 1)
      await archiveAll()
      assert.deepEqual(
        (await archives()).map(({ month, lastSequence }) => [month, lastSequence]),
        [
          ['2025-01', 1],
          ['2025-02', 3],
          ['2025-05', 4],
        ],
      )
      assert.ok((await verifyAudit(db, sealer)).whole)
      assert.ok((await verifyArchives(db, sealer, store)).whole)
    })

    it('leaves only the entry about the archiving in the database if all other entries are old', async () => {
      await add('2025-03-10T00:00:00.000Z', 3)
      await archiveAll()
      assert.deepEqual(
        (await rows()).map(({ sequence, event }) => [sequence, event]),
        [[4, 'audit.archived']],
      )
      assert.deepEqual((await verifyAudit(db, sealer)).sequence, 4)
    })

    it('does not overwrite another service’s archive in the same store', async (t) => {
      const others = { db: await engine.database(), sealer: makeSealer(Buffer.alloc(32, 8), randomBytes) }
      t.after(() => others.db.close())
      const entry = { event: 'key.created', at: '2025-03-10T00:00:00.000Z', target: 'other' } as const
      await others.db.write((tx) => appendAudit(tx, others.sealer, [entry]))
      await add('2025-03-10T00:00:00.000Z', 3)
      await archiveAll()
      await archiveAll(others)
      assert.equal(readdirSync(folder).length, 2)
      assert.ok((await verifyArchives(db, sealer, store)).whole)
      assert.ok((await verifyArchives(others.db, others.sealer, store)).whole)
    })

    it(`deletes at most ${maxSwept} entries in a transaction`, async () => {
      await add('2025-03-10T00:00:00.000Z', maxSwept * 2 + 10)
      const removed: number[] = []
      const write: Database['write'] = async (unit) => {
        const before = (await rows()).length
        const result = await db.write(unit)
        removed.push(before - (await rows()).length)
        return result
      }
      assert.equal(await archiveAll({ db: { ...db, write } }), maxSwept * 2 + 10)
      assert.deepEqual(
        removed.filter((count) => count > 0),
        [maxSwept, maxSwept, 10],
      )
    })

    it('waits an hour after a run that found nothing to archive', async () => {
      const sweep = sweepOf()
      assert.equal(await sweep(), 0)
      await add('2025-03-10T00:00:00.000Z', 3)
      clock.ms += hourMs - 1
      assert.equal(await sweep(), 0)
      clock.ms += 1
      assert.equal(await sweep(), 3)
    })

    it('waits an hour after a failed run', async () => {
      await add('2025-03-10T00:00:00.000Z', 3)
      let isDown = true
      const create: ArchiveStore['create'] = async (key) => {
        if (isDown) throw new Error('The store is down')
        return store.create(key)
      }
      const sweep = sweepOf({ store: { ...store, create } })
      await assert.rejects(sweep(), /The store is down/)
      isDown = false
      clock.ms += hourMs - 1
      assert.equal(await sweep(), 0)
      clock.ms += 1
      assert.equal(await sweep(), 3)
    })

    it('runs on one node at a time; after ten minutes, another node takes over from a stalled one', async () => {
      await add('2025-03-10T00:00:00.000Z', 3)
      const [opened, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const slow: ArchiveStore = {
        ...store,
        create: async (key) => {
          opened.resolve()
          await goOn.promise
          return store.create(key)
        },
      }
      const first = sweepOf({ store: slow })()
      await opened.promise
      const other = sweepOf()
      assert.equal(await other(), 0)
      assert.deepEqual(await archives(), [])
      clock.ms += 10 * 60_000 + 1
      assert.equal(await other(), 3)
      goOn.resolve()
      await assert.rejects(first)
      assert.deepEqual([(await archives()).length, (await rows()).length], [1, 1])
      assert.ok((await verifyArchives(db, sealer, store)).whole)
    })

    it('rejects changes to unarchived entries and to the records of archives', async () => {
      await add('2025-03-10T00:00:00.000Z', 3)
      await add('2026-11-01T00:00:00.000Z', 3)
      await archiveAll()
      const run = (text: string) => db.write((tx) => sql.raw(text).execute(tx))
      await assert.rejects(run('delete from audit_entries where sequence = 4'), /append-only/)
      await assert.rejects(run('delete from audit_archives'), /append-only/)
      await assert.rejects(run(`update audit_archives set last_sequence = 5`), /append-only/)
    })
  })

  describe('an interrupted archiving run', () => {
    const failing = (name: string) => async () => {
      throw new Error(`killed in ${name}`)
    }
    /** Returns a store whose writer fails in the given method and leaves an unfinished file behind. */
    const failingWriter = (name: 'write' | 'finish'): ArchiveStore => ({
      ...store,
      create: async (key) => {
        const writer = await store.create(key)
        const discard = async () => {
          await writer.discard()
          writeFileSync(join(folder, `.${key}.part`), 'unfinished')
        }
        return { ...writer, [name]: failing(name), discard }
      },
    })
    const stores: Record<string, () => ArchiveStore> = {
      create: () => ({ ...store, create: failing('create') }),
      write: () => failingWriter('write'),
      finish: () => failingWriter('finish'),
      open: () => ({ ...store, open: failing('open') }),
    }

    for (const [step, broken] of Object.entries(stores)) {
      it(`deletes nothing if the store fails in ${step}(); the next run creates the archive`, async () => {
        await add('2025-03-10T00:00:00.000Z', 5)
        await assert.rejects(sweepOf({ store: broken() })(), new RegExp(`killed in ${step}`))
        assert.deepEqual([(await rows()).length, await archives()], [5, []])
        assert.equal(await archiveAll(), 5)
        assert.ok((await verifyArchives(db, sealer, store)).whole)
        assert.ok((await verifyAudit(db, sealer)).whole)
      })
    }

    it('is completed by the next run, whichever transaction was interrupted', async () => {
      for (let ended = 1; ; ended++) {
        await add('2025-03-10T00:00:00.000Z', 150)
        let writes = 0
        const write: Database['write'] = async (unit) => {
          writes += 1
          if (writes >= ended) throw new Error('killed in a transaction')
          return db.write(unit)
        }
        const isKilled = await sweepOf({ db: { ...db, write } })().then(
          () => false,
          () => true,
        )
        assert.equal((await verifyAudit(db, sealer)).whole, true)
        if (!isKilled) break
        // The lease of the killed process expires.
        clock.ms += hourMs
        await archiveAll()
        assert.ok((await verifyArchives(db, sealer, store)).whole)
        assert.ok(ended < 20)
        await db.close()
        db = await engine.database()
        rmSync(folder, { recursive: true })
        store = folderResults(folder)
      }
    })

    it('deletes nothing if the content read back from the store differs from what was written', async () => {
      await add('2025-03-10T00:00:00.000Z', 5)
      const lossy: ArchiveStore = {
        ...store,
        open: async (key) => {
          const lines = gunzipSync(readFileSync(join(folder, key)))
            .toString()
            .split('\n')
          writeFileSync(join(folder, key), gzipSync(lines.toSpliced(3, 1).join('\n')))
          return store.open(key)
        },
      }
      await assert.rejects(sweepOf({ store: lossy })(), /entry 4 in audit-2025-03-\S+ is missing/)
      assert.deepEqual([(await rows()).length, await archives()], [5, []])
    })

    it('archives and deletes nothing if an entry was altered', async () => {
      await add('2025-03-10T00:00:00.000Z', 5)
      const trigger =
        engine.name === 'sqlite' ? 'audit_entries_no_update' : 'audit_entries_append_only on audit_entries'
      await db.write(async (tx) => {
        await sql.raw(`drop trigger ${trigger}`).execute(tx)
        await sql`update audit_entries set target = 'x' where sequence = 2`.execute(tx)
      })
      await assert.rejects(sweepOf()(), /entry 2 in audit-2025-03-\S+ was altered/)
      assert.deepEqual([(await rows()).length, await archives()], [5, []])
    })
  })

  describe('an altered archive of the audit log', () => {
    const altered = async () => {
      const verdict = await verifyArchives(db, sealer, store)
      return verdict.whole ? null : withoutHash(verdict.reason)
    }
    beforeEach(async () => {
      await add('2025-03-10T00:00:00.000Z', 4)
      await add('2025-04-10T00:00:00.000Z', 4)
      await archiveAll()
      assert.equal(await altered(), null)
    })

    it('is reported with its name and the first entry that differs', async () => {
      const lines = linesOf('2025-04')
      const cases: [lines: string[], reason: string][] = [
        [
          lines.with(1, (lines[1] as string).replace('192.0.2.1', '192.0.2.2')),
          'entry 6 in audit-2025-04.ndjson.gz was altered',
        ],
        [
          lines.with(0, (lines[0] as string).replace('{', '{"clientId":5,')),
          'entry 5 in audit-2025-04.ndjson.gz was altered',
        ],
        [lines.toSpliced(2, 1), 'entry 7 in audit-2025-04.ndjson.gz is missing'],
        [lines.slice(0, 3), 'entry 8 in audit-2025-04.ndjson.gz is missing'],
        [[...lines, lines[0] as string], 'entry 9 in audit-2025-04.ndjson.gz is missing'],
        [linesOf('2025-03'), 'entry 5 in audit-2025-04.ndjson.gz is missing'],
        [lines.with(2, '[]'), 'entry 7 in audit-2025-04.ndjson.gz is missing'],
        [lines.with(2, 'null'), 'entry 7 in audit-2025-04.ndjson.gz is missing'],
      ]
      for (const [changed, reason] of cases) {
        rewrite('2025-04', changed)
        assert.equal(await altered(), reason)
      }
      rewrite('2025-04', lines)
      assert.equal(await altered(), null)
    })

    it('is reported if the file is truncated or damaged; the check throws if the file is missing', async () => {
      const bytes = readFileSync(file('2025-03'))
      const [middle, byte] = [bytes.length >> 1, (bytes[bytes.length >> 1] as number) ^ 0xff]
      for (const damaged of [
        bytes.subarray(0, middle),
        bytes.with(middle, byte),
        Buffer.from('x'),
        gzipSync('{"a":\n'),
      ]) {
        writeFileSync(file('2025-03'), damaged)
        assert.match(
          (await altered()) ?? '',
          /^audit-2025-03.ndjson.gz is damaged: |entry \d in audit-2025-03\S+ was altered$/,
        )
      }
      rmSync(file('2025-03'))
      await assert.rejects(altered(), /ENOENT.*audit-2025-03-/)
    })

    it('is detected by both checks if its database record was changed, but only by verifyAudit if the record was removed', async () => {
      const triggers = {
        sqlite: ['update', 'delete'].map((change) => `drop trigger audit_archives_no_${change}`),
        postgres: ['drop trigger audit_archives_append_only on audit_archives'],
      }[engine.name]
      const run = (text: string) => db.write((tx) => sql.raw(text).execute(tx))
      for (const text of triggers) await run(text)
      await run(`update audit_archives set last_sequence = 7 where month = '2025-04'`)
      assert.equal(await altered(), 'the record of audit-2025-04.ndjson.gz in the database was altered')
      const verdict = await verifyAudit(db, sealer)
      assert.ok(!verdict.whole)
      assert.deepEqual(
        [verdict.sequence, withoutHash(verdict.reason)],
        [7, 'is archived, but the record of audit-2025-04.ndjson.gz was altered'],
      )
      await run(`delete from audit_archives where month = '2025-04'`)
      assert.equal(await altered(), null)
      assert.deepEqual(await verifyAudit(db, sealer), { whole: false, sequence: 5, reason: 'is missing' })
      await run(`delete from audit_archives`)
      assert.deepEqual(await verifyAudit(db, sealer), { whole: false, sequence: 1, reason: 'is missing' })
    })
  })
})
