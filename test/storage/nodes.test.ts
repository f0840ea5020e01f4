import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import pg from 'pg'
import { excludePostgresNodes, joinNodes } from '../../src/storage/postgres/nodes.ts'
import { onPostgres } from '../support/engines.ts'
import { pgbouncer, pgbouncerMissing } from '../support/pgbouncer.ts'
import { eventually } from '../support/service.ts'

onPostgres((engine) => {
  describe('the nodes of a database', () => {
    const onError = (error: unknown) => assert.fail(String(error))

    it('can be excluded only if none is running, and cannot join until the exclusion is released', async () => {
      const { url, remove } = await engine.place()
      const [first, second] = [await joinNodes(url, onError), await joinNodes(url, onError)]
      const here = `process ${process.pid} on \\S+`
      await assert.rejects(excludePostgresNodes(url), {
        name: 'DatabaseInUse',
        message: new RegExp(`^the database is used by ${here}, ${here}: stop it first$`),
        exitCode: 2,
      })
      await first()
      await assert.rejects(excludePostgresNodes(url), /is used by process \d+ on \S+: stop it first/)
      await second()
      const release = await excludePostgresNodes(url)
      await assert.rejects(
        joinNodes(url, onError),
        /plinth migrate is changing rows of this database: start again when/,
      )
      await assert.rejects(excludePostgresNodes(url), /is used by process/)
      await release()
      const third = await joinNodes(url, onError)
      await third()
      await remove()
    })

    it('are rejected with exit code 2 if they connect through a pooler', { skip: pgbouncerMissing }, async (t) => {
      const { url, remove } = await engine.place()
      const pooler = await pgbouncer(url)
      t.after(async () => {
        await pooler.stop()
        await remove()
      })
      const refused = { exitCode: 2, message: /^DATABASE_URL leads to a connection pooler/ }
      await assert.rejects(excludePostgresNodes(pooler.url), refused)
      await assert.rejects(joinNodes(pooler.url, onError), refused)
      await (await joinNodes(url, onError))()
    })

    it('rejoin after their connection has broken', async () => {
      const { url, remove } = await engine.place()
      const leave = await joinNodes(url, () => {})
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      const others = `from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
      const held = async () => (await client.query(`select 1 from pg_locks where locktype = 'advisory'`)).rowCount
      const { rows: before } = await client.query(`select pid ${others}`)
      await client.query(`select pg_terminate_backend(pid) ${others}`)
      await eventually('another connection holds the lock', async () => {
        const { rows } = await client.query(`select pid ${others}`)
        return (await held()) === 1 && rows.length === 1 && rows[0].pid !== before[0].pid
      })
      await leave()
      await eventually('the lock is free', async () => (await held()) === 0)
      await client.end()
      await remove()
    })
  })
})
