import { closeSync, openSync, readdirSync, rmSync, truncateSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, afterEach, before, describe, it } from 'node:test'
import { sql } from 'kysely'
import pg from 'pg'
import { archiveAudit } from '../../src/audit/archive-sweep.ts'
import { monthAfter } from '../../src/audit/archives.ts'
import { appendAudit, theService } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { folderResults } from '../../src/files/folder.ts'
import type { ExamineOptions } from '../../src/health/examine.ts'
import { cookieKeysContext, cookieKeysName, createKey } from '../../src/oauth/keys/stored-keys.ts'
import { openQueue } from '../../src/queue/open.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { iso } from '../../src/storage/ids.ts'
import { migrationNames } from '../../src/storage/migrate.ts'
import { openDatabase, openReadOnly } from '../../src/storage/open.ts'
import { forEachEngine, onPostgres, onSqlite, type Place } from '../support/engines.ts'
import { muchLater } from '../support/timers.ts'
import { type Environment, examined, expectCheck, newFolder, production, seal } from './support.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

forEachEngine((engine) => {
  describe('the database checks (S-22)', () => {
    let place: Place
    let db: Database
    const nowMs = Date.now()
    before(async () => {
      place = await engine.migratedPlace()
      db = await openDatabase(place.url, { setTimer: muchLater })
    })
    after(async () => {
      await db.close()
      await place.remove()
    })
    const check = (changes: Partial<ExamineOptions> = {}, env: Environment = {}) =>
      examined({ DATABASE_URL: place.url, ...env }, changes)
    const laterBy = (ms: number) => ({ databaseNow: async () => Date.now() + ms })
    const run = (text: string) => db.write((tx) => sql.raw(text).execute(tx))

    it('database.migrations warns about pending migrations, and the checks that need tables are skipped', async (t) => {
      const empty = await engine.place()
      t.after(empty.remove)
      // SQLite has no file before the first start.
      if (engine.name === 'sqlite') new DatabaseSync(empty.url.replace('file:', '')).exec('create table other (id)')
      const report = await check({}, { DATABASE_URL: empty.url })
      expectCheck(report, 'database.migrations', 'warn', /are pending: 0001-resources, .* → Run `plinth migrate`/)
      expectCheck(report, 'keys.signing', null)
      expectCheck(report, 'queue.jobs', null)
    })

    it('database.migrations fails if a newer release migrated the database', async () => {
      expectCheck(await check(), 'database.migrations', 'pass', new RegExp(`^All ${migrationNames.length}`))
      await run(`insert into migrations (name) values ('9999-future')`)
      expectCheck(await check(), 'database.migrations', 'fail', /9999-future → Install that release/)
      await run(`delete from migrations where name = '9999-future'`)
    })

    it('database.tables warns about a resource without a table', async () => {
      expectCheck(await check(), 'database.tables', 'pass', /^3 tables/)
      const [table] = builtIn.tables
      const definition = { ...builtIn, tables: [...builtIn.tables, { ...table, name: 'invoices' }] } as typeof builtIn
      expectCheck(await check({ definition }), 'database.tables', 'warn', /No table for invoices/)
    })

    it('compare stored times with the database’s clock, even if the machine’s clock is wrong', async () => {
      const heartbeatAt = iso(Date.now())
      const state = { clockAheadMs: 0, startedAt: heartbeatAt, heartbeatAt, definition: '', schemaVersion: '' }
      const facts = { hostname: 'a', pid: 1, version: '1', roles: 'api', settings: '{}', resources: '{}' }
      await db.write((tx) =>
        tx
          .insertInto('nodes')
          .values({ id: 'nod_clock', ...facts, ...state })
          .execute(),
      )
      const report = await check({ now: () => Date.now() + hourMs })
      expectCheck(report, 'database.clock', engine.name === 'sqlite' ? null : 'fail', /(3600|3599)\.\d s ahead/)
      expectCheck(report, 'nodes.heartbeat', 'pass', /^1 node running/)
      await run('delete from nodes')
    })

    it('database.size warns if deliveries or other records of the service make up most of a large database', async () => {
      const gib = 1024 ** 3
      const sized = (...sizes: [table: string, bytes: number][]) =>
        check({ tableSizes: async () => sizes.map(([table, bytes]) => ({ table, bytes })) })
      expectCheck(await check(), 'database.size', 'pass', /the largest: [\w.]+ [\d.]+ kB, /)
      expectCheck(await sized(['deliveries', 2 * gib], ['products', gib]), 'database.size', 'warn', /3\.2 GB.*webhooks/)
      expectCheck(await sized(['deliveries', 2 * gib], ['products', 2 * gib]), 'database.size', 'pass')
      expectCheck(await sized(['deliveries', gib], ['products', 9]), 'database.size', 'pass')
      expectCheck(await sized(['products', 9 * gib]), 'database.size', 'pass')
    })

    it('database.changes warns about an interrupted migration of rows', async () => {
      expectCheck(await check(), 'database.changes', 'pass')
      const row = { version: '1', digest: 'x', tableName: 'books', change: 'fill books.genre', columnName: 'genre' }
      const progress = { rows: 5, position: 0, lastId: 5, lastUuid: null, startedAt: iso(nowMs), finishedAt: null }
      await db.write((tx) =>
        tx
          .insertInto('schemaChanges')
          .values({ ...row, ...progress })
          .execute(),
      )
      expectCheck(await check(laterBy(2 * hourMs)), 'database.changes', 'warn', /books: fill .*started 2 hours ago/)
      await run('delete from schema_changes')
    })

    it('keys.master-fits fails if the key is not the one that encrypted the secrets', async () => {
      expectCheck(await check(), 'keys.master-fits', 'pass', /no secrets yet/)
      const value = seal.seal('["x"]', cookieKeysContext)
      await db.write((tx) => tx.insertInto('settings').values({ name: cookieKeysName, value }).execute())
      expectCheck(await check(), 'keys.master-fits', 'pass', /decrypts them/)
      const other = sealer(Buffer.alloc(32, 2), (size) => Buffer.alloc(size))
      expectCheck(
        await check({ readSealer: async () => other }),
        'keys.master-fits',
        'fail',
        /not the key that encrypted/,
      )
      expectCheck(await check({ readSealer: async () => null }), 'keys.master-fits', null)
    })

    it('keys.master-rotation warns while two master keys are valid', async () => {
      expectCheck(await check(), 'keys.master-rotation', 'pass', /^No rotation is in progress/)
      const key = { id: 1, purpose: 'seal', wrapped: '', createdAt: iso(nowMs), activatedAt: null } as const
      const rows = [1, 2].map((generation) => ({ ...key, generation, fingerprint: `key-${generation}` }))
      await db.write((tx) => tx.insertInto('dataKeys').values(rows).execute())
      expectCheck(await check(), 'keys.master-rotation', 'warn', /key-1 and key-2 .*`plinth keys rotate-master`$/)
      await run('delete from data_keys')
    })

    describe('the nodes', () => {
      const facts = {
        ...{ hostname: 'alpha', pid: 1, version: '1.0.0', roles: 'api', schemaVersion: '0031-nodes' },
        ...{ settings: '{"PLINTH_BASE_URL":"https://a.test"}', resources: '{"/books":["title"]}', definition: 'd1' },
      }
      const store = (id: string, changes: object = {}) => {
        const at = { clockAheadMs: 0, startedAt: iso(nowMs), heartbeatAt: iso(Date.now()) }
        return db.write((tx) =>
          tx
            .insertInto('nodes')
            .values({ id, ...facts, ...at, ...changes })
            .execute(),
        )
      }
      afterEach(() => run('delete from nodes'))

      it('nodes.heartbeat passes with running nodes and warns about a lost one', async () => {
        expectCheck(await check(), 'nodes.heartbeat', 'pass', /^No node is running/)
        await store('a')
        expectCheck(await check(), 'nodes.heartbeat', 'pass', /^1 node running/)
        await store('b', { hostname: 'beta', heartbeatAt: iso(Date.now() - 2 * minuteMs) })
        expectCheck(
          await check(),
          'nodes.heartbeat',
          'warn',
          /^1 node running; 1 node lost: process 1 on beta .*2 minutes ago/,
        )
      })

      it('nodes.agreement warns about different releases and definitions, and fails for different base URLs', async () => {
        await store('a')
        await store('b', { hostname: 'beta', startedAt: iso(nowMs + 1) })
        expectCheck(await check(), 'nodes.agreement', 'pass', /^All 2 nodes agree/)
        await store('c', {
          ...{ pid: 3, version: '1.1.0', startedAt: iso(nowMs + 2) },
          resources: '{"/books":[]}',
          definition: 'd2',
        })
        expectCheck(await check(), 'nodes.agreement', 'warn', /release 1\.1\.0\): not the release of process 1 .*title/)
        await store('d', { settings: '{"PLINTH_BASE_URL":"https://b.test"}', startedAt: iso(nowMs - 1) })
        expectCheck(
          await check(),
          'nodes.agreement',
          'fail',
          /PLINTH_BASE_URL is https:\/\/a\.test here, but https:\/\/b\.test/,
        )
      })

      it('nodes.clocks warns above 5 seconds and fails above 30', async () => {
        await store('a', { clockAheadMs: -4_000 })
        expectCheck(await check(), 'nodes.clocks', 'pass', /^At most 4\.0 s/)
        await store('b', { clockAheadMs: -6_000 })
        expectCheck(await check(), 'nodes.clocks', 'warn', /^At most 6\.0 s/)
        await store('c', { clockAheadMs: 31_000 })
        expectCheck(await check(), 'nodes.clocks', 'fail', /^At most 31\.0 s/)
      })
    })

    it('keys.signing states when the next key starts to sign, and warns if the current key is too old', async () => {
      expectCheck(await check(), 'keys.signing', 'pass', /first start creates it/)
      const key = await createKey(seal, iso(nowMs), iso(nowMs))
      const next = { ...key, kid: 'next', activeFrom: iso(nowMs + 90 * dayMs) }
      await db.write((tx) => tx.insertInto('signingKeys').values([key, next]).execute())
      expectCheck(
        await check(laterBy(89 * dayMs)),
        'keys.signing',
        'pass',
        /^Has signed for 89 days, kid \S+; its successor signs from 20/,
      )
      expectCheck(await check(laterBy(91 * dayMs)), 'keys.signing', 'pass', /^Has signed for 1 day, kid next/)
      expectCheck(await check(laterBy(184 * dayMs)), 'keys.signing', 'warn', /signed for 94 days, .*plinth keys rotate/)
    })

    it('keys.passwords warns, with --deep, about stored hashes with a low cost', async () => {
      const hash = (memory: number) => `$argon2id$v=19$m=${memory},t=1,p=1$c2FsdA$dGFn`
      for (const [id, memory] of [47_104, 47_103].entries()) {
        await run(`insert into users (name, name_key, email, email_key, created_at, updated_at, revision, shares_second)
          values ('a', 'a', 'a${id}', 'a${id}', '', '', 1, 0)`)
        await run(`insert into accounts (user_id, role, password_hash, created_at)
          values ((select max(id) from users), 'user', '${hash(memory)}', '')`)
      }
      expectCheck(await check(), 'keys.passwords', 'pass', /^argon2id with 64 MiB, 3 passes/)
      expectCheck(await check({ isDeep: true }), 'keys.passwords', 'warn', /^1 stored hash cost/)
      await run(`delete from accounts where password_hash like '%m=47103%'`)
      expectCheck(await check({ isDeep: true }), 'keys.passwords', 'pass', /every stored hash/)
    })

    it('queue.jobs warns about jobs that have been due for 5 minutes, and fails after an hour', async () => {
      expectCheck(await check(), 'queue.jobs', 'pass')
      const queue = await openQueue({ db, now: Date.now, random: Math.random, onError: () => {} })
      await db.write((tx) => queue.enqueue(tx, 'report.generate', {}))
      await db.write((tx) => queue.enqueue(tx, 'webhook.settle', {}, { delayMs: dayMs }))
      await queue.stop(0)
      expectCheck(
        await check(),
        'queue.jobs',
        'pass',
        /report\.generate: 1 job, due for 0 seconds; webhook\.settle: 1 job/,
      )
      expectCheck(await check(laterBy(6 * minuteMs)), 'queue.jobs', 'warn', /due for 6 minutes/)
      expectCheck(await check(laterBy(61 * minuteMs)), 'queue.jobs', 'fail', /due for 1 hour; .*role worker/)
    })

    it('webhooks.endpoints warns about failing and disabled webhooks', async () => {
      expectCheck(await check(), 'webhooks.endpoints', 'pass', /^0 active, 0 failing, 0 disabled/)
      const at = iso(nowMs)
      const row = {
        ownerClient: 'c',
        ownerSubject: 's',
        event: '*',
        callbackUrl: 'https://a.example',
        description: null,
      }
      const more = {
        headers: null,
        payloadStyle: 'plain',
        version: null,
        scopes: null,
        failingTold: null,
        secretSealed: '',
      }
      const times = { createdAt: at, updatedAt: at, previousSecretSealed: null, previousSecretExpiresAt: null }
      const states = [
        { id: 'a', status: 'active', statusReason: null, failingSince: null },
        { id: 'b', status: 'active', statusReason: null, failingSince: at },
        { id: 'c', status: 'disabled', statusReason: 'gone', failingSince: null },
      ]
      const rows = states.map((state) => ({
        ...row,
        event: state.id,
        ...more,
        ...times,
        revision: 1,
        sharesSecond: 0,
        ...state,
      }))
      await db.write((tx) =>
        tx
          .insertInto('webhooks')
          .values(rows as never)
          .execute(),
      )
      expectCheck(await check(), 'webhooks.endpoints', 'warn', /^1 active, 1 failing, 1 disabled/)
    })

    it('webhooks.deliveries warns about deliveries that have been due for 5 minutes, and fails after an hour', async () => {
      expectCheck(await check(), 'webhooks.deliveries', 'pass', /^0 deliveries/)
      const deliveries = Array.from({ length: 81 }, (_, at) => ({
        ...{
          id: `dlv_${at}`,
          eventId: `evt_${at}`,
          webhookId: 'a',
          url: 'https://a.example',
          body: '{}',
          status: 'pending' as const,
        },
        ...{ attempts: 0, nextAttemptAt: null, createdAt: iso(Date.now()), completedAt: null },
      }))
      await db.write((tx) => tx.insertInto('deliveries').values(deliveries).execute())
      expectCheck(await check(), 'webhooks.deliveries', 'pass', /^81 deliveries/)
      await db.write((tx) =>
        tx
          .insertInto('deliveryOwners')
          .values({ owner: 'c', rank: 0, dueAt: iso(Date.now()) })
          .execute(),
      )
      expectCheck(await check(laterBy(6 * minuteMs)), 'webhooks.deliveries', 'warn', /due for 6 minutes/)
      expectCheck(await check(laterBy(61 * minuteMs)), 'webhooks.deliveries', 'fail', /due for 1 hour/)
    })

    it('audit.chain fails for an altered entry; only --deep verifies entries older than the newest 1,000', async () => {
      const entries = Array.from({ length: 1_002 }, () => ({
        ...theService,
        event: 'key.created' as const,
        at: iso(nowMs),
      }))
      await db.write((tx) => appendAudit(tx, seal, entries))
      expectCheck(await check(), 'audit.chain', 'pass', /^1,000 entries of 1002/)
      expectCheck(await check({ isDeep: true }), 'audit.chain', 'pass', /^1,002 entries/)
      const triggers = { sqlite: 'audit_entries_no_update', postgres: 'audit_entries_append_only on audit_entries' }
      await run(`drop trigger ${triggers[engine.name]}`)
      await run(`update audit_entries set target = 'x' where sequence = 2`)
      expectCheck(await check(), 'audit.chain', 'pass')
      expectCheck(await check({ isDeep: true }), 'audit.chain', 'fail', /^Entry 2 was altered/)
      await run(`update audit_entries set target = 'x' where sequence = 3`)
      expectCheck(await check(), 'audit.chain', 'fail', /^Entry 4 was altered|^Entry 3 was altered/)
      expectCheck(await check({ readSealer: async () => null }), 'audit.chain', null)
    })

    it('audit.chain verifies archived entries only with --deep, and states how many entries it verified', async (t) => {
      const archived = await engine.migratedPlace()
      const other = await openDatabase(archived.url, { setTimer: muchLater })
      const { folder, remove } = newFolder()
      t.after(async () => {
        await other.close()
        await archived.remove()
        remove()
      })
      const entry = { ...theService, event: 'key.created' as const }
      const old = Array.from({ length: 3 }, () => ({ ...entry, at: '2026-01-15T00:00:00.000Z' }))
      await other.write((tx) => appendAudit(tx, seal, [...old, { ...entry, at: '2026-03-01T00:00:00.000Z' }]))
      const results = folderResults(folder)
      const clock = () => Date.parse('2026-03-02')
      await archiveAudit({ db: other, store: results, sealer: seal, months: 1, now: clock, clock })()
      const found = (isDeep: boolean) =>
        check({ isDeep, openResults: async () => results }, { DATABASE_URL: archived.url })
      expectCheck(await found(false), 'audit.chain', 'pass', /^2 entries of 5 verified/)
      expectCheck(await found(true), 'audit.chain', 'pass', /^5 entries of 5 verified, 3 of them in 1 archive/)
      const [file = ''] = readdirSync(folder)
      writeFileSync(join(folder, file), 'x')
      expectCheck(await found(false), 'audit.chain', 'pass')
      expectCheck(await found(true), 'audit.chain', 'fail', /^audit-2026-01-\S+ is damaged/)
    })

    it('audit.archive warns about an entry that should have been archived a day ago', async () => {
      const found = (env: Environment, now: string) => check({ databaseNow: async () => Date.parse(now) }, env)
      const [oldest] = await db.read.selectFrom('auditEntries').select('at').orderBy('sequence').limit(1).execute()
      const month = (oldest?.at ?? iso(nowMs)).slice(0, 7)
      const env = { PLINTH_AUDIT_MONTHS: '2' }
      const due = Date.parse(`${monthAfter(month, 3)}-01`)
      expectCheck(await found(env, iso(due + dayMs - 1)), 'audit.archive', 'pass', /^Nothing is archived/)
      expectCheck(
        await found(env, iso(due + dayMs)),
        'audit.archive',
        'warn',
        /an entry of .* is in the database.*worker/,
      )
      expectCheck(
        await found({ PLINTH_AUDIT_MONTHS: 'off' }, iso(due + dayMs)),
        'audit.archive',
        'pass',
        /all other entries/,
      )
    })

    describe('backups', () => {
      const env = { PLINTH_BACKUP: '0 3 * * *' }
      const at = (text: string) => ({ databaseNow: async () => Date.parse(text) })
      const store = (day: string, status: 'completed' | 'failed' | 'running', error: string | null = null) => {
        const scheduledFor = `${day}T03:00:00.000Z`
        const held = { node: 'n', attempts: 1, startedAt: scheduledFor, leaseUntil: scheduledFor }
        const row = { scheduledFor, status, ...held, finishedAt: scheduledFor, name: day, sizeBytes: 1, error }
        return db.write((tx) => tx.insertInto('backups').values(row).execute())
      }
      afterEach(() => run('delete from backups'))

      it('backups.schedule warns in production if no backups are configured', async () => {
        expectCheck(await check(), 'backups.schedule', 'pass')
        expectCheck(await check({}, production), 'backups.schedule', 'warn', /Set PLINTH_BACKUP/)
      })

      it('backups.schedule warns after one failure, and fails after two missed backups', async () => {
        expectCheck(await check({}, env), 'backups.schedule', 'pass', /none was due/)
        await store('2026-03-01', 'completed')
        expectCheck(
          await check(at('2026-03-01T09:00:00Z'), env),
          'backups.schedule',
          'pass',
          /^2026-03-01, 6 hours ago/,
        )
        await store('2026-03-02', 'failed', 'The disk is full')
        const failed = await check(at('2026-03-02T09:00:00Z'), env)
        expectCheck(failed, 'backups.schedule', 'warn', /^The disk is full; the last complete one is from 2026-03-01/)
        expectCheck(await check(at('2026-03-03T09:00:00Z'), env), 'backups.schedule', 'fail', /^The disk is full/)
      })

      it('backups.schedule passes while the first backup is being made, and warns if it failed once', async () => {
        const first = await check(at('2026-03-01T02:00:00Z'), env)
        expectCheck(first, 'backups.schedule', 'pass', /none was due/)
        await store('2026-03-01', 'running')
        const running = await check(at('2026-03-01T03:01:00Z'), env)
        expectCheck(running, 'backups.schedule', 'pass', /the first one has been running for 1 minute/)
        await run(`update backups set status = 'failed', error = 'The disk is full'`)
        const failed = await check(at('2026-03-02T02:59:00Z'), env)
        expectCheck(failed, 'backups.schedule', 'warn', /^The disk is full; none is complete/)
        expectCheck(await check(at('2026-03-02T03:01:00Z'), env), 'backups.schedule', 'fail', /; none is complete/)
      })

      it('backups.encryption warns if there is no passphrase', async () => {
        expectCheck(await check(), 'backups.encryption', null)
        expectCheck(await check({}, env), 'backups.encryption', 'warn', /in plain form/)
        expectCheck(await check({}, { ...env, PLINTH_BACKUP_PASSPHRASE: 'x' }), 'backups.encryption', 'pass')
      })
    })
  })
})

onSqlite((engine) => {
  describe('the checks of a SQLite file', () => {
    let place: Place
    let path: string
    before(async () => {
      place = await engine.migratedPlace()
      path = place.url.replace('file:', '')
    })
    after(() => place.remove())
    const check = (changes: Partial<ExamineOptions> = {}) => examined({ DATABASE_URL: place.url }, changes)
    /** Overwrites bytes of the file at a position. */
    const overwrite = (bytes: Buffer, position: number) => {
      const file = openSync(path, 'r+')
      writeSync(file, bytes, 0, bytes.length, position)
      closeSync(file)
    }

    it('database.reachable warns if the file does not exist, and fails if it is not a database', async (t) => {
      expectCheck(await check(), 'database.reachable', 'pass', /^SQLite, \//)
      const other = await engine.place()
      t.after(other.remove)
      expectCheck(await examined({ DATABASE_URL: other.url }), 'database.reachable', 'warn', /does not exist/)
      writeFileSync(other.url.replace('file:', ''), 'x'.repeat(4_096))
      const report = await examined({ DATABASE_URL: other.url })
      expectCheck(report, 'database.reachable', 'fail', /file is not a database/)
    })

    it('database.integrity, a deep check, fails for rows that refer to missing rows and for damaged pages', async () => {
      expectCheck(await check(), 'database.integrity', null)
      expectCheck(await check({ isDeep: true }), 'database.integrity', 'pass')
      const db = new DatabaseSync(path, { enableForeignKeyConstraints: false })
      db.exec(`insert into accounts (user_id, role, created_at) values (99, 'user', '')`)
      db.close()
      expectCheck(await check({ isDeep: true }), 'database.integrity', 'fail', /1 row or more of accounts/)
      overwrite(Buffer.alloc(2_048, 7), 40 * 2_048)
      expectCheck(await check({ isDeep: true }), 'database.integrity', 'fail', /plinth restore/)
    })

    it('database.journal warns about a large write-ahead log, and fails if the file is not in WAL mode', async () => {
      expectCheck(await check(), 'database.journal', 'pass')
      writeFileSync(`${path}-wal`, '')
      truncateSync(`${path}-wal`, 257 * 1024 ** 2)
      expectCheck(await check(), 'database.journal', 'warn', /has 269\.5 MB/)
      rmSync(`${path}-wal`)
      rmSync(`${path}-shm`, { force: true })
      overwrite(Buffer.from([1, 1]), 18)
      expectCheck(await check(), 'database.journal', 'fail', /rollback journal/)
    })

    it('database.free-pages warns if most of the file is unused', async () => {
      expectCheck(await check(), 'database.free-pages', 'pass')
      const pages = 300_000
      const number = (value: number) => {
        const bytes = Buffer.alloc(4)
        bytes.writeUInt32BE(value)
        return bytes
      }
      truncateSync(path, pages * 2_048)
      overwrite(number(pages), 28)
      overwrite(number(0.9 * pages), 36)
      expectCheck(await check(), 'database.free-pages', 'warn', /^553\.0 MB of 614\.4 MB .*vacuum/)
    })
  })
})

onPostgres((engine) => {
  describe('the checks of a PostgreSQL server', () => {
    let place: Place
    let client: pg.Client
    before(async () => {
      place = await engine.migratedPlace()
      client = new pg.Client(place.url)
      await client.connect()
    })
    after(async () => {
      await client.end()
      await place.remove()
    })
    const check = (changes: Partial<ExamineOptions> = {}, env: Environment = {}) =>
      examined({ DATABASE_URL: place.url, PLINTH_THREADS: '1', ...env }, changes)
    const name = () => new URL(place.url).pathname.slice(1)

    it('database.clock warns above 5 seconds, and fails above 30', async () => {
      expectCheck(await check(), 'database.clock', 'pass')
      expectCheck(await check({ now: () => Date.now() + 15_000 }), 'database.clock', 'warn', /ahead of the server's/)
      expectCheck(await check({ now: () => Date.now() - 60_000 }), 'database.clock', 'fail', /60\.\d s behind/)
    })

    it('database.version warns after the end of support', async () => {
      expectCheck(await check({ now: () => Date.parse('2024-01-01') }), 'database.version', 'pass')
      const { rows } = await client.query(`select current_setting('server_version_num')::int / 10000 <= 18 as known`)
      const old = await check({ now: () => Date.parse('2040-01-01') })
      expectCheck(old, 'database.version', rows[0].known ? 'warn' : 'pass', /^\d/)
    })

    it('database.durability warns if commits are not synchronous', async () => {
      expectCheck(await check(), 'database.durability', 'pass')
      await client.query(`alter database ${name()} set synchronous_commit = off`)
      expectCheck(
        await check(),
        'database.durability',
        'warn',
        /lose acknowledged writes → .*alter system set synchronous_commit = on/,
      )
    })

    it('database.encoding fails for an encoding other than UTF8', async () => {
      expectCheck(await check(), 'database.encoding', 'pass', /^UTF8/)
      const other = `${name()}_ascii`
      await client.query(`create database ${other} template template0 encoding 'SQL_ASCII' locale 'C'`)
      try {
        const DATABASE_URL = Object.assign(new URL(place.url), { pathname: `/${other}` }).href
        expectCheck(await examined({ DATABASE_URL }), 'database.encoding', 'fail', /^SQL_ASCII/)
      } finally {
        await client.query(`drop database ${other} with (force)`)
      }
    })

    it('database.connections warns if the nodes can open more connections than the server allows', async (t) => {
      expectCheck(await check(), 'database.connections', 'pass', /; 0 nodes can open 0/)
      const { rows } = await client.query(`select current_setting('max_connections')::int as max`)
      // The totals in docs/scaling.md: with one thread, a node opens at most 35 connections, or 20 without those to a pooler.
      const nodes = Math.ceil(rows[0].max / 35)
      for (let node = 1; node <= nodes; node++) {
        const held = new pg.Client({ connectionString: place.url, application_name: `plinth host ${node}` })
        await held.connect()
        t.after(() => held.end())
      }
      expectCheck(await check(), 'database.connections', 'warn', new RegExp(`; ${nodes} nodes can open ${nodes * 35}`))
      const threaded = await check({}, { PLINTH_THREADS: '2' })
      expectCheck(threaded, 'database.connections', 'warn', new RegExp(`; ${nodes} nodes can open ${nodes * 48}`))
      const env = {
        PLINTH_THREADS: '1',
        DATABASE_URL: 'postgres://pooler.example.com/plinth',
        PLINTH_DATABASE_DIRECT_URL: place.url,
      }
      const pooled = await examined(env, { openDatabase: () => openReadOnly(place.url) })
      const counts = new RegExp(`; ${nodes} nodes can open ${nodes * 20}, and the pooler its own`)
      expectCheck(pooled, 'database.connections', 'pass', counts)
    })

    it('database.indexes, a deep check, warns without amcheck and passes with it', async () => {
      expectCheck(await check(), 'database.indexes', null)
      expectCheck(await check({ isDeep: true }), 'database.indexes', 'warn', /create extension amcheck/)
      await client.query('create extension amcheck')
      expectCheck(await check({ isDeep: true }), 'database.indexes', 'pass', /^\d+ indexes without damage/)
    })
  })
})
