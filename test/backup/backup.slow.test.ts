import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it, type TestContext } from 'node:test'
import { archiveAudit } from '../../src/audit/archive-sweep.ts'
import { appendAudit, theService } from '../../src/audit/chain.ts'
import { verifyArchives, verifyAudit } from '../../src/audit/verify.ts'
import type { Config } from '../../src/config/config.ts'
import { resultsUrlOf } from '../../src/config/storage.ts'
import { openResults } from '../../src/files/open.ts'
import { freePort } from '../../src/serving/listeners.ts'
import { addUpload, keepFiles, placeFile, releaseFiles } from '../../src/storage/stored-files.ts'
import { openStores } from '../../src/stores.ts'
import { type EngineUnderTest, onPostgres, onSqlite, type Place as TestPlace } from '../support/engines.ts'
import { s3Missing, s3Server } from '../support/s3.ts'
import { eventually } from '../support/service.ts'
import { isSigned, ok, receiver } from '../support/webhooks.ts'
import { backUp, configIn, newFolder, passphrase, placeIn, restoreTo, type Serving, serve, verify } from './support.ts'

const hasPgDump =
  spawnSync('pg_dump', ['--version']).status === 0 || globSync('/usr/lib/postgresql/*/bin/pg_dump').length > 0

/** Creates products until it is stopped, and records when each was acknowledged. */
function writing({ call }: Serving, token: string) {
  const acknowledged: { id: number; atMs: number }[] = []
  let isStopped = false
  const writers = [1, 2, 3].map(async (writer) => {
    for (let n = 0; !isStopped; n++) {
      const body = { name: `Product ${writer}.${n}`, price: 1.5 }
      const { status, json, bytes } = await call('POST', '/products', { token, body })
      assert.equal(status, 201, bytes.toString())
      acknowledged.push({ id: json().id, atMs: Date.now() })
    }
  })
  const stop = async () => {
    isStopped = true
    await Promise.all(writers)
  }
  return { acknowledged, stop }
}

/** Requests a report, and returns its task id and its bytes. */
async function reportOf({ call }: Serving, token: string): Promise<{ taskId: string; bytes: Buffer }> {
  const body = { reportType: 'products', format: 'csv' }
  const { taskId } = (await call('POST', '/api/reports', { token, body })).json()
  const download = () => call('GET', `/api/reports/${taskId}/download`, { token })
  const { bytes } = await eventually('the report is ready', async () => {
    const answer = await download()
    return answer.status === 200 && answer
  })
  return { taskId, bytes }
}

function restoreSuite(engine: EngineUnderTest): void {
  describe('a backup of a running service', () => {
    it('restores all data acknowledged before the backup, and does not resend delivered events', async (t) => {
      const [{ folder, remove }, from, to] = [newFolder(), await engine.migratedPlace(), await engine.place()]
      const port = String(await freePort())
      const settings = { PLINTH_PORT: port, ...(engine.name === 'postgres' && { DATABASE_URL: from.url }) }
      const config = configIn(join(folder, 'one'), settings)
      const { calls, url } = await receiver(t, ok)
      let service = await serve(config)
      t.after(async () => {
        await service.close()
        await Promise.all([from.remove(), to.remove()])
        remove()
      })
      const token = await service.token()
      const registered = await service.call('POST', '/api/webhooks', {
        token,
        body: { event: 'report.completed', callbackUrl: url },
      })
      const { secret } = registered.json()
      const report = await reportOf(service, token)
      await eventually('the webhook is called', async () => calls.length === 1)
      const { acknowledged, stop } = writing(service, token)
      await eventually('some products exist', async () => acknowledged.length >= 20)
      const file = join(folder, 'one.backup')
      const created = await backUp(placeIn(config), file, { passphrase })
      await eventually('more products exist', async () => acknowledged.at(-1) && acknowledged.length >= 40)
      await stop()
      await service.close()
      assert.equal(statSync(file).mode & 0o777, 0o600)
      assert.deepEqual(readdirSync(folder).sort(), ['one', 'one.backup'])
      assert.equal(
        readdirSync(config.storage.dataDir).some((name) => name.startsWith('.backup-')),
        false,
      )

      const moved = configIn(join(folder, 'two'), {
        ...settings,
        ...(engine.name === 'postgres' && { DATABASE_URL: to.url }),
      })
      const restored = await restoreTo(placeIn(moved), file)
      assert.deepEqual(restored.tables, created.tables)
      assert.deepEqual(restored.keys.sort(), ['authority.crt', 'authority.key', 'master.key', 'server.pem'])
      service = await serve(moved)
      const before = acknowledged.filter(({ atMs }) => atMs < Date.parse(created.takenAt))
      assert.ok(before.length >= 20)
      const rows = await service.db.read.selectFrom('products').select('id').execute()
      const ids = new Set(rows.map(({ id }) => id))
      assert.deepEqual(
        before.filter(({ id }) => !ids.has(id)),
        [],
      )
      assert.equal(rows.length, created.tables.products)

      const download = await service.call('GET', `/api/reports/${report.taskId}/download`, { token })
      assert.equal(download.status, 200)
      assert.ok(download.bytes.equals(report.bytes))
      await reportOf(service, token)
      await eventually('the webhook is called again', async () => calls.length >= 2)
      assert.equal(calls.length, 2)
      for (const call of calls) assert.ok(isSigned(secret, call))
      assert.notEqual(calls[0]?.headers['webhook-id'], calls[1]?.headers['webhook-id'])
    })
  })
}

/** Returns the configurations of two services, the second with an empty database, in a folder that is removed after the test. */
async function twoServices(engine: EngineUnderTest, t: TestContext) {
  const [{ folder, remove }, from, to] = [newFolder(), await engine.migratedPlace(), await engine.place()]
  t.after(async () => {
    await Promise.all([from.remove(), to.remove()])
    remove()
  })
  const at = ({ url }: TestPlace, name: string) =>
    configIn(join(folder, name), engine.name === 'postgres' ? { DATABASE_URL: url } : {})
  return { folder, config: at(from, 'one'), moved: at(to, 'two') }
}

function auditSuite(engine: EngineUnderTest): void {
  it('a backup restores the archived months of the audit log, and lists an archive that is missing from the store', async (t) => {
    const { folder, config, moved } = await twoServices(engine, t)
    const { db, sealer } = await openStores(config)
    const entries = ['2025-01-05', '2025-02-05'].map((day) => ({
      ...{ ...theService, event: 'key.created' as const, at: `${day}T00:00:00.000Z` },
    }))
    await db.write((tx) => appendAudit(tx, sealer, entries))
    const store = await openResults(resultsUrlOf(config.storage))
    const archive = archiveAudit({ db, store, sealer, months: 1, now: Date.now, clock: Date.now })
    assert.deepEqual([await archive(), await archive()], [1, 1])
    const { whole } = await verifyAudit(db, sealer)
    assert.ok(whole)
    const file = join(folder, 'one.backup')
    assert.deepEqual((await backUp(placeIn(config), file, { passphrase })).missingResults, [])
    await restoreTo(placeIn(moved), file)
    const restored = await openStores(moved)
    const archives = await openResults(resultsUrlOf(moved.storage))
    const verdict = await verifyArchives(restored.db, restored.sealer, archives)
    assert.deepEqual([verdict.whole, verdict.whole && verdict.sequence], [true, 2])
    assert.deepEqual(await verifyAudit(restored.db, restored.sealer), await verifyAudit(db, sealer))
    const [first = ''] = (await store.keys()).toSorted()
    await store.remove(first)
    const { missingResults, damagedResults } = await backUp(placeIn(config), join(folder, 'two.backup'))
    assert.deepEqual([missingResults, damagedResults], [[first], []])
    await Promise.all([db.close(), restored.db.close()])
  })
}

function fileSuite(engine: EngineUnderTest): void {
  it('a backup restores the files of existing and of deleted rows, but no unused or unfinished files', async (t) => {
    const { folder, config, moved } = await twoServices(engine, t)
    const { db } = await openStores(config)
    const store = await openResults(resultsUrlOf(config.storage))
    const now = new Date().toISOString()
    for (const [id, key] of [...['fil_stored', 'fil_kept', 'fil_unused', 'fil_uploading'].entries()]) {
      const owner = { table: 'resource_notes', id }
      await addUpload(db, key, owner, Date.now())
      const writer = await store.create(key)
      await writer.write(`content of ${key}`)
      const file = { key, ...(await writer.finish()) }
      if (key !== 'fil_uploading') await db.write((tx) => placeFile(tx, file, owner, now))
      if (key === 'fil_kept') await db.write((tx) => keepFiles(tx, owner.table, [id], Date.now()))
      if (key === 'fil_unused')
        await db.write((tx) => releaseFiles(tx, { table: owner.table, ids: [id], state: 'stored' }, Date.now()))
    }
    const file = join(folder, 'one.backup')
    const { missingResults, damagedResults } = await backUp(placeIn(config), file, { passphrase })
    assert.deepEqual([missingResults, damagedResults], [[], []])
    await db.close()
    await restoreTo(placeIn(moved), file)
    const restored = await openResults(resultsUrlOf(moved.storage))
    assert.deepEqual((await restored.keys()).toSorted(), ['fil_kept', 'fil_stored'])
    const content = Buffer.concat(await (await restored.open('fil_kept')).toArray()).toString()
    assert.equal(content, 'content of fil_kept')
  })
}

function refusalSuite(engine: EngineUnderTest): void {
  describe('a restore', () => {
    let folder: string
    let file: string
    let from: TestPlace
    let config: Config
    const databaseUrl = ({ url }: TestPlace) => (engine.name === 'postgres' ? { DATABASE_URL: url } : undefined)
    const remove: (() => unknown)[] = []
    before(async () => {
      const created = newFolder()
      folder = created.folder
      remove.push(created.remove)
      from = await engine.migratedPlace()
      remove.push(from.remove)
      config = configIn(join(folder, 'one'), { PLINTH_PORT: '0', ...databaseUrl(from) })
      await (await serve(config)).close()
      file = join(folder, 'one.backup')
      await backUp(placeIn(config), file)
    })
    after(async () => {
      for (const step of remove) await step()
    })
    let places = 0
    /** Returns the configuration of a service without data. */
    const empty = async (env: Record<string, string> = {}) => {
      places += 1
      const place = await engine.place()
      remove.push(place.remove)
      return configIn(join(folder, `empty-${places}`), { PLINTH_PORT: '0', ...databaseUrl(place), ...env })
    }

    it('refuses a target that already contains data, names that data, and changes nothing', async () => {
      const before = readdirSync(config.storage.dataDir).sort()
      const refused =
        engine.name === 'sqlite' ? /A database exists: .*plinth\.db/ : /data folder .* is not empty: certificates/
      await assert.rejects(restoreTo(placeIn(config), file), { name: 'BackupRefused', message: refused })
      assert.deepEqual(readdirSync(config.storage.dataDir).sort(), before)
      const filled = await empty()
      mkdirSync(join(filled.storage.dataDir, 'results'), { recursive: true })
      writeFileSync(join(filled.storage.dataDir, 'results', 'tsk_1'), 'x')
      await assert.rejects(restoreTo(placeIn(filled), file), /There are results at .*: tsk_1/)
      rmSync(join(filled.storage.dataDir, 'results'), { recursive: true })
      writeFileSync(join(filled.storage.dataDir, 'notes'), 'x')
      await assert.rejects(restoreTo(placeIn(filled), file), /data folder .* is not empty: notes/)
      assert.deepEqual(readdirSync(filled.storage.dataDir), ['notes'])
    })

    it('refuses a backup of the other database engine', async () => {
      const other = configIn(join(folder, 'other'), {
        PLINTH_PORT: '0',
        ...(engine.name === 'sqlite' && { DATABASE_URL: 'postgres://127.0.0.1:1/none' }),
      })
      await assert.rejects(restoreTo(placeIn(other), file), /can only be restored to the engine that it was made with/)
    })

    it('requires the master key if the backup does not contain it, and refuses a wrong one', async () => {
      const without = join(folder, 'without.backup')
      const created = await backUp(placeIn(config), without, { withKeys: false })
      assert.deepEqual(
        created.entries.filter(({ name }) => name.startsWith('keys/')),
        [],
      )
      const target = await empty()
      await assert.rejects(
        restoreTo(placeIn(target), without),
        /does not contain the master key: set PLINTH_MASTER_KEY/,
      )
      const key = 'ab'.repeat(32)
      await assert.rejects(
        restoreTo({ ...placeIn(target), masterKey: key }, without),
        /PLINTH_MASTER_KEY is not the master key/,
      )
      const path = join(target.storage.dataDir, 'master.key')
      writeFileSync(path, readFileSync(join(config.storage.dataDir, 'master.key')))
      assert.deepEqual((await restoreTo(placeIn(target), without)).keys, [])
      await (await serve(target)).close()
    })

    it('leaves nothing behind if the backup is broken', async () => {
      const target = await empty()
      const bytes = readFileSync(file)
      const broken = join(folder, 'broken.backup')
      writeFileSync(broken, bytes.subarray(0, bytes.length - 1))
      await assert.rejects(restoreTo(placeIn(target), broken), { name: 'BackupBroken' })
      assert.deepEqual(readdirSync(target.storage.dataDir), [])
      await assert.rejects(verify(broken), { name: 'BackupBroken' })
      // The failed restore has left the target empty, so another restore succeeds.
      assert.equal((await restoreTo(placeIn(target), file)).results, 0)
    })

    it('refuses a schema from a newer release', async () => {
      const service = await serve(config)
      await service.db.write((tx) =>
        tx
          .insertInto('migrations' as never)
          .values({ name: '9999-later' } as never)
          .execute(),
      )
      const newer = join(folder, 'newer.backup')
      await backUp(placeIn(config), newer).finally(async () => {
        await service.db.write((tx) =>
          tx
            .deleteFrom('migrations' as never)
            .where('name' as never, '=', '9999-later' as never)
            .execute(),
        )
        await service.close()
      })
      await assert.rejects(restoreTo(placeIn(await empty()), newer), /newer release, test \(it has 9999-later\)/)
    })

    it('succeeds if the data folder contains only scheduled backups', async () => {
      const target = await empty()
      const backups = join(target.storage.dataDir, 'backups')
      mkdirSync(backups, { recursive: true })
      const inside = join(backups, 'plinth-20260301T120000Z.backup')
      writeFileSync(inside, readFileSync(file))
      const { postgres } = await verify(inside)
      assert.equal(postgres === null, engine.name === 'sqlite')
      await restoreTo(placeIn(target), inside)
      assert.ok(existsSync(inside))
      await (await serve(target)).close()
    })
  })

  describe('a backup', () => {
    it('lists missing and damaged results, overwrites no file, and leaves nothing behind if aborted', async (t) => {
      const [{ folder, remove }, from] = [newFolder(), await engine.migratedPlace()]
      const env = { PLINTH_PORT: '0', ...(engine.name === 'postgres' && { DATABASE_URL: from.url }) }
      const config = configIn(folder, env)
      const service = await serve(config)
      t.after(async () => {
        await service.close()
        await from.remove()
        remove()
      })
      const token = await service.token()
      for (let n = 0; n < 3; n++) await reportOf(service, token)
      const results = join(config.storage.dataDir, 'results')
      const [gone = '', altered = '', whole = ''] = readdirSync(results).sort()
      rmSync(join(results, gone))
      writeFileSync(join(results, altered), 'x')
      const file = join(folder, 'one.backup')
      const created = await backUp(placeIn(config), file)
      assert.deepEqual([created.missingResults, created.damagedResults], [[gone], [altered]])
      const { entries } = await verify(file)
      assert.deepEqual(
        entries.map(({ name }) => name).filter((name) => name.startsWith('results/')),
        [`results/${altered}`, `results/${whole}`],
      )
      for (const step of ['database', 'archive'] as const) {
        const stop = new AbortController()
        const onProgress = (progress: { step: string }) => progress.step === step && stop.abort()
        const aborted = backUp(placeIn(config), join(folder, 'aborted.backup'), { signal: stop.signal, onProgress })
        await assert.rejects(aborted, { name: 'AbortError' })
        assert.deepEqual(readdirSync(folder).sort(), ['data', 'one.backup'])
        assert.deepEqual(
          readdirSync(config.storage.dataDir).filter((name) => name.startsWith('.')),
          [],
        )
      }
      await assert.rejects(backUp(placeIn(config), file), /exists and is not overwritten/)
    })
  })
}

onSqlite((engine) => {
  restoreSuite(engine)
  auditSuite(engine)
  fileSuite(engine)
  refusalSuite(engine)

  describe('results in a bucket', { skip: s3Missing }, () => {
    it('are backed up and can be restored under another prefix, but not where results already exist', async (t) => {
      const [{ folder, remove }, s3] = [newFolder(), await s3Server()]
      t.after(() => {
        s3.stop()
        remove()
      })
      const one = configIn(join(folder, 'one'), { PLINTH_PORT: '0', PLINTH_RESULTS_URL: s3.url })
      const service = await serve(one)
      const token = await service.token()
      const { bytes } = await reportOf(service, token)
      const file = join(folder, 'one.backup')
      await backUp(placeIn(one), file).finally(service.close)
      const two = configIn(join(folder, 'two'), { PLINTH_PORT: '0', PLINTH_RESULTS_URL: `${s3.url}/other` })
      await assert.rejects(restoreTo({ ...placeIn(two), resultsUrl: s3.url }, file), /There are results at s3:/)
      assert.equal((await restoreTo(placeIn(two), file)).results, 1)
      const restored = await serve(two)
      const [task] = await restored.db.read.selectFrom('tasks').select(['id', 'sizeBytes']).execute()
      assert.equal(task?.sizeBytes, bytes.length)
      const download = await restored.call('GET', `/api/reports/${task?.id}/download`, {
        token: await restored.token(),
      })
      assert.equal(download.status, 200)
      assert.ok(download.bytes.equals(bytes))
      const again = restoreTo(
        { ...placeIn(two), dataDir: join(folder, 'three'), databaseUrl: `file:${folder}/3.db` },
        file,
      )
      await assert.rejects(again.finally(restored.close), /There are results at s3:/)
    })
  })
})

onPostgres((engine) => {
  describe('on PostgreSQL with pg_dump', { skip: hasPgDump ? false : 'pg_dump is not installed' }, () => {
    restoreSuite(engine)
    auditSuite(engine)
    fileSuite(engine)
    refusalSuite(engine)
  })
})
