import assert from 'node:assert/strict'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import { claimRun, lastCompletedRun, lastRun, requestRun } from '../../src/backup/schedule/runs.ts'
import { backupSchedule, latestDue, type ScheduleOptions } from '../../src/backup/schedule/schedule.ts'
import { configuredBackups } from '../../src/backup/schedule/start.ts'
import { backUpInThread } from '../../src/backup/schedule/thread.ts'
import { openResults } from '../../src/files/open.ts'
import type { Database } from '../../src/storage/database.ts'
import { quickWorkFactor } from '../support/app.ts'
import { type EngineUnderTest, forEachEngine, onSqlite } from '../support/engines.ts'
import { s3Missing, s3Server } from '../support/s3.ts'
import { eventually } from '../support/service.ts'
import { muchLater } from '../support/timers.ts'
import { configIn, newFolder, passphrase, placeIn, verify } from './support.ts'

type Line = Record<string, unknown> & { text: string }

const sha256 = 'n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg='
const ignoreProgress = () => {}

/** Prepares nodes that share a database, a backup folder and a clock that the test sets. */
function nodesOn(engine: EngineUnderTest) {
  const nodes = {} as { db: Database; folder: string; clock: { at: string }; lines: Line[] }
  let remove: () => void
  before(async () => {
    nodes.db = await engine.database()
  })
  after(() => nodes.db.close())
  beforeEach(async () => {
    await nodes.db.write((tx) => tx.deleteFrom('backups').execute())
    remove?.()
    const created = newFolder()
    remove = created.remove
    Object.assign(nodes, { folder: created.folder, clock: { at: '2026-03-01T12:00:00Z' }, lines: [] })
  })
  after(() => remove())
  const line = (object: unknown, text?: string) => void nodes.lines.push({ ...(object as object), text: text ?? '' })
  const write: ScheduleOptions['produce'] = async (name) => {
    writeFileSync(join(nodes.folder, name), 'a backup')
    return {
      ...{ sizeBytes: 8, sha256, takenAt: nodes.clock.at, isEncrypted: false },
      missingResults: 0,
      damagedResults: 0,
    }
  }
  return Object.assign(nodes, {
    node: async (more: Partial<ScheduleOptions> = {}) =>
      backupSchedule({
        ...{
          db: nodes.db,
          cron: '0 3 * * *',
          keep: 2,
          store: await openResults(`file:${nodes.folder}`),
          location: `file:${nodes.folder}`,
          produce: write,
        },
        ...{
          node: 'one',
          now: () => Date.parse(nodes.clock.at),
          log: { info: line, warn: line, error: line } as never,
        },
        ...more,
      }),
    /** Returns the names of the files in the backup folder. */
    files: () => readdirSync(nodes.folder).sort(),
    /** Sets the clock to this instant, and runs the checks of these schedules concurrently. */
    at: async (instant: string, ...schedules: { check: () => Promise<void> }[]) => {
      nodes.clock.at = instant
      await Promise.all(schedules.map(({ check }) => check()))
    },
    texts: () => nodes.lines.map(({ text }) => text),
  })
}

describe('the schedule', () => {
  it('is in UTC, and a backup is due at the scheduled instant itself', () => {
    const due = (cron: string, at: string) => new Date(latestDue(cron, Date.parse(at))).toISOString()
    assert.equal(due('0 3 * * *', '2026-03-02T03:00:00.000Z'), '2026-03-02T03:00:00.000Z')
    assert.equal(due('0 3 * * *', '2026-03-02T02:59:59.999Z'), '2026-03-01T03:00:00.000Z')
    assert.equal(due('*/15 * * * *', '2026-03-02T02:59:59.999Z'), '2026-03-02T02:45:00.000Z')
    assert.equal(due('30 1 * * 1', '2026-03-04T00:00:00Z'), '2026-03-02T01:30:00.000Z')
  })
})

forEachEngine((engine) => {
  describe('scheduled backups', () => {
    const nodes = nodesOn(engine)

    it('run once for each scheduled instant, on one of the nodes', async () => {
      const schedules = await Promise.all(['one', 'two', 'three'].map((node) => nodes.node({ node })))
      await nodes.at('2026-03-01T12:00:00Z', ...schedules)
      assert.deepEqual(nodes.files(), [])
      await nodes.at('2026-03-02T03:00:04Z', ...schedules)
      await nodes.at('2026-03-02T03:00:19Z', ...schedules)
      assert.deepEqual(nodes.files(), ['plinth-20260302T030004Z.backup'])
      assert.deepEqual(nodes.texts(), ['backup started', 'backup made'])
      const { scheduledFor, status, attempts, error, finishedAt, name, requestedBy, node, ...file } = {
        ...(await lastRun(nodes.db)),
      }
      assert.ok(['one', 'two', 'three'].includes(node as string))
      assert.deepEqual([scheduledFor, finishedAt], ['2026-03-02T03:00:00.000Z', '2026-03-02T03:00:04.000Z'])
      assert.deepEqual([status, attempts, error, requestedBy], ['completed', 1, null, null])
      assert.equal(name, 'plinth-20260302T030004Z.backup')
      const { location, sizeBytes, encrypted } = file
      assert.deepEqual([location, sizeBytes, file.sha256, encrypted], [`file:${nodes.folder}`, 8, sha256, 0])
      await nodes.at('2026-03-03T03:00:00Z', ...schedules)
      assert.equal(nodes.files().length, 2)
    })

    it('run once after downtime, but not before the first scheduled instant', async () => {
      await nodes.at('2026-03-02T09:00:00Z', await nodes.node())
      assert.deepEqual(nodes.files(), [])
      const [running] = [await nodes.node()]
      await nodes.at('2026-03-02T09:00:00Z', running)
      await nodes.at('2026-03-03T03:00:00Z', running)
      const restarted = await nodes.node()
      await nodes.at('2026-03-07T09:00:00Z', restarted)
      await nodes.at('2026-03-07T09:01:00Z', restarted)
      assert.deepEqual(nodes.files(), ['plinth-20260303T030000Z.backup', 'plinth-20260307T090000Z.backup'])
    })

    it('replace old backups only after a success, and leave other files alone', async () => {
      writeFileSync(join(nodes.folder, 'plinth-before-upgrade.backup'), 'kept')
      let isFailing = false
      const working = await nodes.node()
      const failing = await nodes.node({
        produce: async () => {
          throw new Error('no space left')
        },
      })
      await nodes.at('2026-03-01T12:00:00Z', working, failing)
      for (const day of ['02', '03', '04', '05', '06']) {
        isFailing = day === '05'
        await nodes.at(`2026-03-${day}T03:00:00Z`, isFailing ? failing : working)
        if (isFailing) {
          const run = await lastRun(nodes.db)
          assert.deepEqual([run?.status, run?.error, run?.name], ['failed', 'no space left', null])
          assert.equal((await lastCompletedRun(nodes.db))?.scheduledFor, '2026-03-04T03:00:00.000Z')
          assert.deepEqual(nodes.files().slice(0, 2), [
            'plinth-20260303T030000Z.backup',
            'plinth-20260304T030000Z.backup',
          ])
          assert.equal(nodes.texts().at(-1), 'backup failed')
        }
      }
      const names = ['plinth-20260304T030000Z.backup', 'plinth-20260306T030000Z.backup', 'plinth-before-upgrade.backup']
      assert.deepEqual(nodes.files(), names)
    })

    it('are retried by another node once a dead node’s lease has expired, with at most three attempts', async () => {
      const [first, ...others] = await Promise.all(['one', 'two', 'three', 'four'].map((node) => nodes.node({ node })))
      await nodes.at('2026-03-01T12:00:00Z', first as never, ...(others as never[]))
      // Simulates a process that dies without releasing its claim.
      const scheduledFor = '2026-03-02T03:00:00.000Z'
      await claimRun(nodes.db, { scheduledFor, node: 'dead', nowMs: Date.parse(scheduledFor) })
      await nodes.at('2026-03-02T03:01:00Z', ...(others as never[]))
      assert.deepEqual(nodes.files(), [])
      await nodes.at('2026-03-02T03:01:31Z', ...(others as never[]))
      const run = await lastRun(nodes.db)
      assert.deepEqual([run?.status, run?.attempts, nodes.files().length], ['completed', 2, 1])
      await nodes.db.write((tx) =>
        tx
          .updateTable('backups')
          .set({ status: 'running', attempts: 3, leaseUntil: '2026-03-02T03:03:00.000Z' })
          .execute(),
      )
      await nodes.at('2026-03-02T03:04:00Z', await nodes.node())
      assert.deepEqual([(await lastRun(nodes.db))?.status, nodes.files().length], ['failed', 1])
    })

    it('are never made at the same time as requested ones', async () => {
      for (let round = 0; round < 20; round++) {
        await nodes.db.write((tx) => tx.deleteFrom('backups').execute())
        const wanted = { requestedBy: 'console 1', node: 'api', nowMs: Date.parse('2026-03-01T02:59:59.000Z') }
        const requested = await nodes.db.write((tx) => requestRun(tx, nodes.db.engine, wanted))
        const times = [String(requested?.scheduledFor), '2026-03-01T03:00:00.000Z']
        const claims = await Promise.all(
          times.map((scheduledFor, at) =>
            claimRun(nodes.db, { scheduledFor, node: `node ${at}`, nowMs: Date.parse('2026-03-01T03:00:01.000Z') }),
          ),
        )
        assert.equal(claims.filter((claim) => claim === 'busy').length, 1, `round ${round}`)
      }
    })

    it('become due again if the service stops while they run, and never overlap', async () => {
      const stopped = await nodes.node({
        produce: (_name, signal) =>
          new Promise((_, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason))
            if (signal.aborted) reject(signal.reason)
          }),
      })
      const other = await nodes.node({ node: 'other', cron: '0 3,4 * * *' })
      await nodes.at('2026-03-01T12:00:00Z', stopped, other)
      nodes.clock.at = '2026-03-02T03:59:30Z'
      const checking = stopped.check()
      while (!nodes.texts().includes('backup started')) await new Promise(setImmediate)
      await nodes.at('2026-03-02T04:00:01Z', other)
      assert.deepEqual(nodes.files(), [])
      await stopped.stop()
      await checking
      await nodes.at('2026-03-02T04:00:15Z', other)
      assert.deepEqual(nodes.files(), ['plinth-20260302T040015Z.backup'])
    })
  })
})

onSqlite((engine) => {
  describe('a backup in a thread', () => {
    it('is complete and encrypted; an aborted one leaves nothing behind', async (t) => {
      const db = await engine.database()
      const { folder, remove } = newFolder()
      t.after(async () => {
        await db.close()
        remove()
      })
      const place = { ...placeIn(configIn(folder)), databaseUrl: db.url }
      const backups = join(folder, 'backups')
      const produce = backUpInThread({
        ...{ place, version: 'test', passphrase, workFactor: quickWorkFactor, backupsUrl: `file:${backups}` },
      })
      const { sizeBytes } = await produce(
        'plinth-20260301T120000Z.backup',
        new AbortController().signal,
        ignoreProgress,
      )
      const file = join(backups, 'plinth-20260301T120000Z.backup')
      const verified = await verify(file)
      assert.deepEqual([verified.sizeBytes, verified.isEncrypted], [sizeBytes, true])
      const stop = new AbortController()
      const aborted = produce('plinth-20260302T120000Z.backup', stop.signal, ignoreProgress)
      stop.abort()
      await assert.rejects(aborted, { name: 'AbortError' })
      assert.deepEqual(readdirSync(backups), ['plinth-20260301T120000Z.backup'])
      const missing = { ...place, databaseUrl: `file:${folder}/none.db` }
      const failing = backUpInThread({
        place: missing,
        version: 'test',
        passphrase: null,
        backupsUrl: `file:${backups}`,
      })
      const { signal } = new AbortController()
      await assert.rejects(failing('plinth-20260303T120000Z.backup', signal, ignoreProgress), /no database at/)
    })
  })

  describe('requested backups', () => {
    const nodes = nodesOn(engine)
    const request = (at: string) =>
      nodes.db.write((tx) =>
        requestRun(tx, nodes.db.engine, { requestedBy: 'console 1', node: 'api', nowMs: Date.parse(at) }),
      )

    it('are made once by the next worker that checks, even without a schedule', async () => {
      const schedules = await Promise.all(['one', 'two'].map((node) => nodes.node({ node, cron: null })))
      await nodes.at('2026-03-01T12:00:00Z', ...schedules)
      assert.ok(await request('2026-03-01T12:00:05Z'))
      await nodes.at('2026-03-01T12:00:15Z', ...schedules)
      await nodes.at('2026-03-01T12:00:30Z', ...schedules)
      assert.deepEqual(nodes.files(), ['plinth-requested-20260301T120015Z.backup'])
      const run = await lastRun(nodes.db)
      assert.deepEqual([run?.status, run?.attempts, run?.requestedBy], ['completed', 1, 'console 1'])
    })

    it('are refused while another is pending, unless no worker has begun it within five minutes', async () => {
      assert.ok(await request('2026-03-01T12:00:00Z'))
      assert.equal(await request('2026-03-01T12:04:59Z'), undefined)
      const [one, two] = await Promise.all([request('2026-03-01T12:05:00Z'), request('2026-03-01T12:05:00.001Z')])
      assert.equal([one, two].filter((run) => run !== undefined).length, 1)
      const runs = await nodes.db.read.selectFrom('backups').selectAll().orderBy('scheduledFor').execute()
      assert.deepEqual(
        runs.map(({ status, error }) => [status, error]),
        [
          ['failed', 'No process with the role worker made it'],
          ['running', null],
        ],
      )
    })

    it('are not made if no worker has begun them within five minutes', async () => {
      const schedule = await nodes.node({ cron: null })
      assert.ok(await request('2026-03-01T12:00:00.000Z'))
      await nodes.at('2026-03-01T12:05:00Z', schedule)
      assert.deepEqual([nodes.files(), (await lastRun(nodes.db))?.attempts], [[], 0])
      assert.ok(await request('2026-03-01T12:05:00.001Z'))
      await nodes.at('2026-03-01T12:10:00Z', schedule)
      assert.equal(nodes.files().length, 1)
    })

    it('are kept up to the same number as scheduled backups, but counted separately', async () => {
      const schedule = await nodes.node({ keep: 1 })
      await nodes.at('2026-03-01T12:00:00Z', schedule)
      await nodes.at('2026-03-02T03:00:00Z', schedule)
      for (const at of ['2026-03-02T04:00:00Z', '2026-03-02T05:00:00Z']) {
        assert.ok(await request(at))
        await nodes.at(at, schedule)
      }
      assert.deepEqual(nodes.files(), ['plinth-20260302T030000Z.backup', 'plinth-requested-20260302T050000Z.backup'])
    })

    it('save their progress, and start over if the service stops while they run', async () => {
      const stopped = await nodes.node({
        produce: (_name, signal, onProgress) =>
          new Promise((_, reject) => {
            onProgress({ step: 'archive', doneBytes: 4, totalBytes: 8 })
            signal.addEventListener('abort', () => reject(signal.reason))
          }),
      })
      assert.ok(await request('2026-03-01T12:00:00Z'))
      nodes.clock.at = '2026-03-01T12:00:01Z'
      const checking = stopped.check()
      const run = await eventually('progress', async () => {
        const last = await lastRun(nodes.db)
        return last?.doneBytes != null && last
      })
      assert.deepEqual([run.step, run.doneBytes, run.totalBytes], ['archive', 4, 8])
      await stopped.stop()
      await checking
      assert.deepEqual(nodes.files(), [])
      await nodes.at('2026-03-01T12:00:02Z', await nodes.node())
      assert.deepEqual(nodes.files(), ['plinth-requested-20260301T120002Z.backup'])
    })
  })

  describe('scheduled backups in a bucket', { skip: s3Missing }, () => {
    const nodes = nodesOn(engine)
    it('are kept in the bucket, and old ones are removed', async (t) => {
      const s3 = await s3Server()
      t.after(s3.stop)
      const store = await openResults(s3.url)
      const produce = backUpInThread({
        ...{ version: 'test', passphrase: null, backupsUrl: s3.url },
        place: { ...placeIn(configIn(nodes.folder)), databaseUrl: nodes.db.url },
      })
      const schedule = await nodes.node({ store, produce, keep: 1 })
      await nodes.at('2026-03-01T12:00:00Z', schedule)
      await nodes.at('2026-03-02T03:00:00Z', schedule)
      await nodes.at('2026-03-03T03:00:00Z', schedule)
      assert.deepEqual(await store.keys(), ['plinth-20260303T030000Z.backup'])
      assert.deepEqual(nodes.texts().slice(-2), ['backup made', 'old backup removed'])
    })
  })

  describe('starting the backup schedule', () => {
    const nodes = nodesOn(engine)
    const options = () => ({
      ...nodes,
      dataDir: nodes.folder,
      version: 'test',
      now: Date.now,
      monotonic: () => performance.now(),
      later: muchLater,
      log: { warn: () => {} } as never,
    })

    it('fails if the cron expression or the passphrase is invalid', async () => {
      const start = (env: Record<string, string>) => configuredBackups(configIn(nodes.folder, env), options()).start()
      await assert.rejects(start({ PLINTH_BACKUP: '61 * * * *' }), {
        name: 'Error',
        message: /^PLINTH_BACKUP=61 \* \* \* \* is not valid/,
      })
      const daily = { PLINTH_BACKUP: '0 3 * * *' }
      await assert.rejects(start({ ...daily, PLINTH_BACKUP_PASSPHRASE: 'short' }), /5 characters; use 12 or more/)
      await assert.rejects(
        start({ ...daily, PLINTH_BACKUP_PASSPHRASE_FILE: join(nodes.folder, 'none') }),
        /passphrase cannot be read/,
      )
      assert.equal(existsSync(join(nodes.folder, 'data', 'backups')), false)
    })

    it('creates no backups folder without PLINTH_BACKUP or without the worker role', async () => {
      for (const env of [undefined, { PLINTH_BACKUP: '* * * * *', PLINTH_ROLES: 'api,auth' }]) {
        const { start, stop } = configuredBackups(configIn(nodes.folder, env), options())
        await start()
        await stop()
      }
      assert.equal(existsSync(join(nodes.folder, 'data', 'backups')), false)
    })
  })
})
