import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { builtIn } from '../src/catalog/service.ts'
import { readConfig } from '../src/config/config.ts'
import { startService } from '../src/start.ts'
import { onPostgres, type Place } from './support/engines.ts'
import { eventually } from './support/service.ts'

onPostgres((engine) => {
  describe('a failed startup', () => {
    let place: Place
    let watcher: pg.Client
    let dataDir: string
    before(async () => {
      place = await engine.place()
      dataDir = mkdtempSync(join(tmpdir(), 'plinth-start-'))
      watcher = new pg.Client({ connectionString: place.url })
      await watcher.connect()
    })
    after(async () => {
      await watcher.end()
      await place.remove()
      rmSync(dataDir, { recursive: true })
    })
    /** Asserts that starting the service fails with this error and leaves no connection open. */
    const fails = async (env: Record<string, string>, why: RegExp) => {
      const settings = { PLINTH_PORT: '0', PLINTH_HTTP_PORT: '0', PLINTH_LOG_LEVEL: 'silent', DATABASE_URL: place.url }
      const config = readConfig({ ...settings, PLINTH_DATA_DIR: dataDir, ...env })
      await assert.rejects(startService(config, builtIn, 'test'), why)
      await eventually(
        'the server has closed its side too',
        async () => {
          const query = `select pid from pg_stat_activity where datname = current_database() and application_name like 'plinth%'`
          return (await watcher.query(query)).rows.length === 0
        },
        5_000,
      )
    }

    it('leaves no database connection open if the rate-limit counters cannot be opened', () =>
      fails({ REDIS_URL: 'redis://%zz@127.0.0.1' }, /URI malformed/))

    it('leaves no database connection open if a node with a different base URL registers first', async () => {
      const settings = { PLINTH_PORT: '0', PLINTH_HTTP_PORT: '0', PLINTH_LOG_LEVEL: 'silent', DATABASE_URL: place.url }
      const config = readConfig({ ...settings, PLINTH_DATA_DIR: dataDir })
      await (await startService(config, builtIn, 'test')).close()
      // Under this lock, the service can still read the registered nodes, but must wait to register itself.
      await watcher.query('begin; lock table nodes in share row exclusive mode')
      const refused = fails({ PLINTH_BASE_URL: 'https://here.test' }, /PLINTH_BASE_URL is https:\/\/here\.test here/)
      await eventually('the service waits for the lock', async () => {
        const query = `select 1 from pg_locks where relation = 'nodes'::regclass and not granted`
        return (await watcher.query(query)).rows.length > 0
      })
      const other = `'nod_other', 'other', 1, '1', 'api', '', '{"PLINTH_BASE_URL":"https://there.test"}', '{}', '', 0`
      await watcher.query(`insert into nodes (id, hostname, pid, version, roles, schema_version, settings, resources,
        definition, clock_ahead_ms, started_at, heartbeat_at)
        select ${other}, at, at from to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at; commit`)
      await refused
      await watcher.query('delete from nodes')
    })

    it('leaves no database connection open if a component opened later fails', async () => {
      await watcher.query('drop schema pgboss cascade; create schema pgboss; create table pgboss.version (broken text)')
      await fails({}, /relation "pgboss\.queue" does not exist/)
    })
  })
})
