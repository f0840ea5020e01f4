import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import { openDatabase } from '../../src/storage/open.ts'
import { ended, eventually, killAll, plinth, succeeding } from '../cli/support.ts'
import { definitionFolder, itemsDefinition } from '../support/definitions.ts'
import { forEachEngine, onPostgres } from '../support/engines.ts'
import { realService } from '../support/service.ts'

const { write, remove } = definitionFolder()
after(() => {
  killAll()
  remove()
})

const earlier = write('earlier', itemsDefinition('number: Line(1, 20), total: Type.Integer()', "filters: ['number']"))
const rowCount = 30_000

forEachEngine((engine) => {
  describe('plinth migrate, killed three times while it fills a field', () => {
    it('resumes, writes every row once, and prevents the service from starting meanwhile', {
      timeout: 300_000,
    }, async () => {
      const place = await engine.place()
      const service = await realService({ DATABASE_URL: place.url })
      const env = { DATABASE_URL: place.url, PLINTH_DATA_DIR: service.dataDir, PLINTH_PORT: '0', PLINTH_HTTP_PORT: '0' }
      const filled = write(
        `filled-${engine.name}`,
        itemsDefinition(
          'number: Line(1, 20), total: Type.Integer(), label: Line(1, 40)',
          "filters: ['number', 'label'], migrate: { fill: { label: ({ number, total }) => number + ': ' + total } }",
        ),
      )
      await succeeding(env)('migrate', earlier)
      const db = await openDatabase(place.url)
      try {
        const numbers = sql`with recursive n (at) as (select 1 union all select at + 1 from n where at < ${rowCount})`
        await db.write((tx) =>
          sql`
            insert into resource_items (number, number_key, total, revision, created_at, updated_at)
            ${numbers} select 'A' || at, 'a' || at, at, 1, '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z' from n`.execute(
            tx,
          ),
        )
        const unfinished = async () =>
          (await db.read.selectFrom('schemaChanges').select('rows').where('finishedAt', 'is', null).execute()).map(
            (one) => Number(one.rows),
          )
        let done = 0
        for (const rows of [1, 5_000, 15_000]) {
          const run = plinth(['migrate', filled], env)
          await eventually(`${rows} rows are filled`, async () => ((await unfinished())[0] ?? 0) >= rows)
          run.child.kill('SIGKILL')
          const { signal, stderr } = await ended(run)
          assert.equal(signal, 'SIGKILL', 'it was killed before its end')
          assert.ok(stderr.startsWith(`plinth: resource_items.label: ${done} of ${rowCount} rows\n`), stderr)
          done = (await unfinished())[0] ?? 0
          assert.ok(done >= rows && done < rowCount, String(done))
        }

        const refused = await ended(plinth(['serve', filled], env))
        assert.equal(refused.code, 2)
        assert.match(refused.stderr, /the field label has to be filled in 30000 rows.* run plinth migrate\n$/)
        const plan = await ended(plinth(['migrate', '--plan', filled], env))
        assert.deepEqual(
          [plan.code, plan.stdout.split('\n')[0]],
          [3, `-- fill label of resource_items in ${rowCount - done} rows`],
        )

        const { stdout, code } = await ended(plinth(['migrate', filled], env))
        assert.equal(code, 0)
        assert.equal(stdout.split('\n')[0], `-- fill label of resource_items in ${rowCount} rows`)
        const { rows } = await db.write((tx) =>
          sql<{ total: number }>`
            select count(*) as total from resource_items
            where label = number || ': ' || total and revision = 2 and label_key is not null`.execute(tx),
        )
        assert.deepEqual(
          rows.map(({ total }) => Number(total)),
          [rowCount],
        )
        assert.match(
          await succeeding(env)('migrate', '--history', filled),
          /2\.0 {2}resource_items {2}30000 rows {2}fill label of resource_items\n/,
        )
        assert.equal(await succeeding(env)('migrate', '--plan', filled), 'The schema is up to date\n')
      } finally {
        await db.close()
        await service.remove()
        await place.remove()
      }
    })
  })
})

/** The number of kills during the creation of the schema; long runs set MIGRATION_KILLS=50. */
const kills = Number(process.env.MIGRATION_KILLS ?? 5)

forEachEngine((engine) => {
  describe(`plinth migrate, killed at ${kills} points while it creates the schema (T-OPS-03)`, () => {
    it('never leaves a partial schema; the next run completes the migration', {
      timeout: 60_000 + kills * 10_000,
    }, async (t) => {
      const service = await realService()
      const env = { PLINTH_DATA_DIR: service.dataDir, PLINTH_PORT: '0', PLINTH_HTTP_PORT: '0' }
      const migrateIn = async (url: string) => {
        const began = performance.now()
        await succeeding({ ...env, DATABASE_URL: url })('migrate')
        return performance.now() - began
      }
      const reference = await engine.place()
      const wholeMs = await migrateIn(reference.url)
      const schema = await schemaOf(reference.url)
      await reference.remove()
      let unfinished = 0
      for (let kill = 0; kill < kills; kill++) {
        const place = await engine.place()
        const run = plinth(['migrate'], { ...env, DATABASE_URL: place.url })
        // The process migrates the schema in the second half of its run time, so it is killed only then.
        await pause(wholeMs * (0.5 + (0.5 * kill) / kills))
        run.child.kill('SIGKILL')
        await ended(run)
        const left = await schemaOf(place.url)
        if (left.length === 0) unfinished += 1
        else assert.deepEqual(left, schema)
        await migrateIn(place.url)
        assert.deepEqual(await schemaOf(place.url), schema)
        assert.equal(await succeeding({ ...env, DATABASE_URL: place.url })('migrate'), 'The schema is up to date\n')
        await place.remove()
      }
      t.diagnostic(`${unfinished} of ${kills} runs were killed before their commit`)
      await service.remove()
    })
  })
})

/** Returns the tables and columns of a database, sorted; empty for an empty database. */
async function schemaOf(url: string): Promise<string[]> {
  const db = await openDatabase(url)
  const tables = await db.read.introspection.getTables().finally(db.close)
  return tables
    .flatMap(({ name, columns }) => columns.map((column) => `${name}.${column.name} ${column.dataType}`))
    .sort()
}

onPostgres((engine) => {
  describe('a renamed field on two nodes', () => {
    it('the old node can keep writing while the new one serves; migrate --tidy is refused until both have stopped', {
      timeout: 300_000,
    }, async () => {
      const renamed = write(
        'renamed',
        itemsDefinition(
          "reference: Line(1, 20), total: Type.Integer(), currency: Type.Enum(['EUR', 'USD'])",
          "filters: ['reference'], migrate: { renamed: { reference: 'number' }, fill: { currency: 'EUR' } }",
        ),
      )
      const place = await engine.place()
      const shared = {
        ...{ DATABASE_URL: place.url, PLINTH_MASTER_KEY: 'ab'.repeat(32), PLINTH_BASE_URL: 'https://localhost' },
      }
      const old = await realService({ ...shared, PLINTH_DEFINITION: earlier })
      const current = await realService({ ...shared, PLINTH_DEFINITION: renamed })
      const db = await openDatabase(place.url)
      try {
        await old.start()
        for (let total = 0; total < 20; total++) {
          assert.equal((await old.call('POST', '/items', { body: { number: `A${total}`, total } })).status, 201)
        }
        const versions = async () =>
          (
            await sql<{
              id: number
              version: string
            }>`select id, xmin::text as version from resource_items order by id limit 20`.execute(db.read)
          ).rows
        const before = await versions()
        const writing = new AbortController()
        const written: string[] = []
        const writes = (async () => {
          for (let at = 0; !writing.signal.aborted; at++) {
            const { status } = await old.call('POST', '/items', { body: { number: `B${at}`, total: at } })
            assert.equal(status, 201)
            written.push(`B${at}`)
          }
        })()
        await eventually('the old node writes', async () => written.length > 3)
        await current.start()
        const sent = { reference: 'C1', total: 1, currency: 'USD' }
        assert.equal((await current.call('POST', '/items', { body: sent })).status, 201)
        const already = written.length
        await eventually('the old node still writes', async () => written.length > already + 3)
        writing.abort()
        await writes
        assert.deepEqual(await versions(), before, 'no row has a new version')
        const found = (await current.call('GET', `/items?reference=${written.at(-1)}`)).json()
        assert.deepEqual([found[0].reference, found[0].currency, found.length], [written.at(-1), 'EUR', 1])
        assert.equal((await old.call('GET', '/items?number=C1')).json()[0].number, 'C1')

        const env = { ...shared, PLINTH_DATA_DIR: current.dataDir }
        const refused = await ended(plinth(['migrate', '--tidy', renamed], env))
        assert.equal(refused.code, 2)
        const holders = [old, current].map((node) => `process ${node.child().pid} on \\S+`).join(', ')
        assert.match(refused.stderr, new RegExp(`^plinth: the database is used by ${holders}: stop it first\n$`))
        await old.kill('SIGKILL')
        await current.kill('SIGTERM')
        const tidied = await eventually('the server has noticed both ends', async () => {
          const result = await ended(plinth(['migrate', '--tidy', renamed], env))
          return result.code === 0 && result
        })
        assert.match(tidied.stdout, /alter table "resource_items" rename column "number" to "reference";\n/)
        await current.start()
        assert.equal((await current.call('GET', '/items?reference=C1')).json()[0].reference, 'C1')
      } finally {
        await db.close()
        await old.remove()
        await current.remove()
        await place.remove()
      }
    })
  })
})
