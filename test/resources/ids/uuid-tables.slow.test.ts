import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { sql } from 'kysely'
import { type TObject, Type } from 'typebox'
import { service as defined } from '../../../src/definition/service.ts'
import { folderResults } from '../../../src/files/folder.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { reportThreads } from '../../../src/reports/generate/report-threads.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import type { Database } from '../../../src/storage/database.ts'
import { uuidSource } from '../../../src/storage/ids.ts'
import { migrate } from '../../../src/storage/migrate.ts'
import { migrateThoroughly } from '../../../src/storage/migrate-thoroughly.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { reportFile } from '../../support/report-files.ts'
import { produceHere } from '../../support/reports.ts'
import { unzip } from '../../support/zip.ts'
import { definition, scopes } from './service.ts'

forEachEngine((engine) => {
  describe('reports on rows with UUIDs', () => {
    const folder = mkdtempSync(join(tmpdir(), 'plinth-uuids-'))
    const results = folderResults(folder)
    const service = appOn(engine, { prefixes: [''], definition, results })
    after(() => rmSync(folder, { recursive: true }))
    const at = { service, definition, scopes }
    const customers: string[] = []
    const invoices: { id: string; customerId: string }[] = []
    const add = async (path: string, payload: object) => {
      const response = await service.send({ method: 'POST', url: path, payload, scopes })
      assert.equal(response.statusCode, 201, response.body)
      return response.json()
    }
    before(async () => {
      // The app stores its results in a folder that the worker thread can open.
      service.results = results
      for (const name of ['Ada', 'Bob']) customers.push((await add('/customers', { name })).id)
      for (let n = 0; n < 300; n++) {
        const body = { reference: `R${n}`, customerId: customers[n % 3 ? 0 : 1], total: '1.00' }
        if (n < 3 || n > 297) await add('/tickets', { customerId: body.customerId, text: `T${n}` })
        invoices.push(await add('/invoices', body))
      }
    })
    const file = async (type: string, parameters: object, format: string, sent?: string) => {
      const options = { format, ...(sent !== undefined && { token: sent }) }
      return String(await reportFile(at, type, parameters, options))
    }

    it('contain ids and references in JSON, NDJSON, CSV and XLSX; a PDF is also generated', async () => {
      const parameters = { fields: ['id', 'customerId'] }
      const expected = invoices.map(({ id, customerId }) => ({ id, customerId }))
      assert.deepEqual(JSON.parse(await file('invoices', parameters, 'json')), expected)
      const lines = (await file('invoices', parameters, 'ndjson')).trim().split('\n')
      assert.deepEqual(
        lines.map((line) => JSON.parse(line)),
        expected,
      )
      const csv = ['id,customerId', ...expected.map(({ id, customerId }) => `${id},${customerId}`), ''].join('\r\n')
      assert.equal(await file('invoices', parameters, 'csv'), csv)
      const sheet = unzip(await reportFile(at, 'invoices', parameters, { format: 'xlsx' })).get(
        'xl/worksheets/sheet1.xml',
      )
      const cells = [...String(sheet).matchAll(/>([0-9a-f-]{36})</g)].map(([, text]) => text)
      assert.deepEqual(
        cells,
        expected.flatMap(({ id, customerId }) => [id, customerId]),
      )
      assert.match(await file('invoices', parameters, 'pdf'), /^%PDF-/)
    })

    it('are identical in CSV when sorted by a reference, whether rendered in a worker thread or in the main thread', async () => {
      const produce = reportThreads({ databaseUrl: service.db.url, resultsUrl: pathToFileURL(folder).href }).produce
      const parameters = { fields: ['id', 'customerId', 'reference'], sort: ['-customerId'] }
      const made = await reportFile(at, 'invoices', parameters, { format: 'csv', produce })
      const here = await reportFile(at, 'invoices', parameters, {
        format: 'csv',
        produce: produceHere(results, service.db.url),
      })
      assert.equal(String(made), String(here))
      const sorted = invoices.toSorted((one, other) =>
        one.customerId === other.customerId ? (one.id < other.id ? -1 : 1) : one.customerId < other.customerId ? 1 : -1,
      )
      assert.deepEqual(
        String(made)
          .split('\r\n')
          .slice(1, -1)
          .map((line) => line.slice(0, 36)),
        sorted.map(({ id }) => id),
      )
    })

    it('can be filtered by a reference; 422 for text that is not a UUID', async () => {
      const [ada = '', bob = ''] = customers
      const rows = JSON.parse(await file('invoices', { filter: { customerId: bob.toUpperCase() } }, 'json'))
      assert.equal(rows.length, 100)
      assert.ok(rows.every((row: { customerId: string }) => row.customerId === bob))
      const refused = await service.send({
        ...{ method: 'POST', url: '/api/reports', scopes },
        payload: { reportType: 'invoices', format: 'json', parameters: { filter: { customerId: '7' } } },
      })
      assert.deepEqual(
        [refused.statusCode, refused.json().errors],
        [422, [{ field: 'parameters.filter.customerId', message: 'must be a UUID' }]],
      )
      assert.equal(JSON.parse(await file('invoices', { filter: { customerId: ada } }, 'json')).length, 200)
    })

    it('can group by a reference, and select rows by a reference in a parameter', async () => {
      const [ada = '', bob = ''] = customers
      const groups = [
        { customerId: ada, invoices: 200, total: '200.00' },
        { customerId: bob, invoices: 100, total: '100.00' },
      ]
      for (const format of ['json', 'ndjson', 'csv'] as const) {
        const text = await file('by-customer', {}, format)
        if (format === 'json') assert.deepEqual(JSON.parse(text), groups)
        if (format === 'ndjson') assert.equal(text, groups.map((group) => `${JSON.stringify(group)}\n`).join(''))
        if (format === 'csv')
          assert.equal(text, `customerId,invoices,total\r\n${ada},200,200.00\r\n${bob},100,100.00\r\n`)
      }
      const sheet = unzip(await reportFile(at, 'by-customer', {}, { format: 'xlsx' })).get('xl/worksheets/sheet1.xml')
      const cells = [...String(sheet).matchAll(/<(?:v|t)[^>]*>([^<]+)</g)].map(([, text]) => text)
      assert.deepEqual(cells.slice(-6), [ada, '200', '200.00', bob, '100', '100.00'])
      assert.deepEqual(
        JSON.parse(await file('by-customer', { customerId: bob.toUpperCase() }, 'json')),
        groups.slice(1),
      )
    })

    it('contain only the rows that access rules let the requester read', async () => {
      const [ada = '', bob = ''] = customers
      const all = JSON.parse(await file('tickets', {}, 'json'))
      for (const customer of [ada, bob]) {
        const own = JSON.parse(await file('tickets', {}, 'json', token(scopes, `of_${customer}`)))
        assert.deepEqual(
          own,
          all.filter(({ customerId }: { customerId: string }) => customerId === customer),
        )
        assert.ok(own.length > 0)
      }
      assert.deepEqual(JSON.parse(await file('visits', {}, 'json', token(scopes, `of_${ada}`))), [])
    })
  })

  describe('tables of rows with UUIDs', () => {
    let db: Database
    beforeEach(async () => {
      db = await engine.database()
    })
    afterEach(() => db.close())
    const now = () => Date.parse('2026-03-01T12:00:00Z')
    const newUuid = uuidSource({ now, random: (size) => Buffer.alloc(size, 7) })
    const items = <B extends TObject>(body: B, more: object = {}) =>
      defined({ resources: [collection({ path: '/items', noun: 'item', ids: 'uuid', body, ...more })] }).tables
    const start = (tables: ReturnType<typeof items>) => migrate(db, { tables, now })
    const thoroughly = (tables: ReturnType<typeof items>, more: object = {}) =>
      migrateThoroughly(db, { tables, now, exclude: async () => () => {}, ...more })
    const add = (count: number, table = 'resource_items') =>
      db.write(async (tx) => {
        const at = '2026-03-01T12:00:00.000Z'
        for (let n = 0; n < count; n++) {
          await sql`insert into ${sql.table(table)} (id, name, revision, created_at, updated_at)
            values (${newUuid()}, ${`N${n}`}, 1, ${at}, ${at})`.execute(tx)
        }
      })
    const rows = async (columns: string) =>
      (
        await db.write((tx) =>
          sql.raw<Record<string, unknown>>(`select ${columns} from resource_items order by id`).execute(tx),
        )
      ).rows
    const name = Line(1, 40)

    it('have uuid columns on PostgreSQL; text columns and an integer column `_row` on SQLite', async () => {
      await start(items(Type.Object({ name, parentId: Type.Optional(Ref('self')) })))
      const { rows: columns } = await db.engine.columnsOf('resource_items').execute(db.read)
      const types = Object.fromEntries(columns.map((column) => [column.name, column.type]))
      const type = engine.name === 'postgres' ? 'uuid' : 'text'
      assert.deepEqual([types.id, types.parent_id], [type, type])
      assert.equal(types._row, engine.name === 'postgres' ? undefined : 'integer')
      const { rows: keys } = await db.engine.foreignKeysOf('resource_items').execute(db.read)
      assert.deepEqual(
        keys.map(({ column, table }) => [column, table]),
        [['parent_id', 'resource_items']],
      )
    })

    it('reject a change of the id type in either direction, and keep all rows', async () => {
      const body = Type.Object({ name })
      await start(items(body))
      await add(2)
      const before = await rows('*')
      const integers = (more: TObject) =>
        defined({ resources: [collection({ path: '/items', noun: 'item', body: more })] }).tables
      for (const changed of [integers(body), integers(Type.Object({ name, note: Type.Optional(name) }))]) {
        await assert.rejects(start(changed), {
          name: 'TableMismatch',
          message:
            "/items: ids are declared as integers, but the rows of resource_items have UUIDs. The type of ids cannot change: declare ids: 'uuid', or another path",
        })
        await assert.rejects(thoroughly(changed), /ids are declared as integers/)
      }
      assert.deepEqual([before.length, await rows('*')], [2, before])
      const notes = { path: '/notes', noun: 'note', body } as const
      await start(defined({ resources: [collection(notes)] }).tables)
      const instant = '2026-03-01T12:00:00.000Z'
      await db.write((tx) =>
        sql`insert into resource_notes (name, revision, created_at, updated_at)
          values ('N', 1, ${instant}, ${instant})`.execute(tx),
      )
      await assert.rejects(
        start(defined({ resources: [collection({ ...notes, ids: 'uuid' })] }).tables),
        /^TableMismatch: \/notes: ids are declared as UUIDs, but the rows of resource_notes have integers\. .* declare ids: 'integer'/,
      )
      const found = await db.write((tx) => sql<{ id: number }>`select id from resource_notes`.execute(tx))
      assert.deepEqual(
        found.rows.map(({ id }) => Number(id)),
        [1],
      )
    })

    it('support new fields with fill values, a new search index and a converted field', async () => {
      await start(items(Type.Object({ name })))
      await add(1_203)
      const filled = items(Type.Object({ name, slug: Line(1, 60), size: Type.Number() }), {
        migrate: { fill: { slug: (row: { id: string; name?: unknown }) => `${row.name}-${row.id}`, size: 7 } },
        search: ['name'],
      })
      await assert.rejects(start(filled), /the field slug has to be filled in 1203 rows/)
      const done = await thoroughly(filled)
      assert.ok(
        done.some((line) => line.includes('in 1203 rows')),
        done.join('\n'),
      )
      for (const row of await rows('id, name, slug, size, name_key')) {
        assert.deepEqual(
          [row.slug, row.size, row.nameKey],
          [`${row.name}-${row.id}`, 7, String(row.name).toLowerCase()],
        )
      }
      const converted = items(Type.Object({ name, slug: Line(1, 60), size: Decimal(6, 2) }), {
        migrate: { convert: { size: (old: number) => old.toFixed(2) } },
        search: ['name'],
      })
      await thoroughly(converted)
      assert.ok((await rows('size')).every(({ size }) => Number(size) === 700))
    })

    it('are migrated from the last recorded row onward when an interrupted migration is run again', async () => {
      await start(items(Type.Object({ name })))
      await add(1_203)
      const definition = () =>
        items(Type.Object({ name, slug: Line(1, 60) }), {
          migrate: { fill: { slug: (row: { id: string }) => `s-${row.id}` } },
        })
      let steps = 0
      const interrupted = thoroughly(definition(), {
        onProgress: () => {
          if (++steps === 3) throw new Error('interrupted')
        },
      })
      await assert.rejects(interrupted, /interrupted/)
      const found = await db.read.selectFrom('schemaChanges').selectAll().where('finishedAt', 'is', null).execute()
      const [, , ...written] = await rows('id')
      assert.deepEqual([found[0]?.rows, found[0]?.lastUuid], [1_000, written[997]?.id])
      await thoroughly(definition())
      assert.ok((await rows('id, slug')).every(({ id, slug }) => slug === `s-${id}`))
    })

    it('can change a reference to another collection with UUIDs, but not to one with integer ids', async () => {
      const one = collection({ path: '/ones', noun: 'one', ids: 'uuid', body: Type.Object({ name }) })
      const two = collection({ path: '/twos', noun: 'two', ids: 'uuid', body: Type.Object({ name }) })
      const three = collection({ path: '/threes', noun: 'three', body: Type.Object({ name }) })
      const referring = (to: typeof one | typeof three) => {
        const body = Type.Object({ name, otherId: Type.Optional(Ref(to as typeof one)) })
        const own = collection({ path: '/items', noun: 'item', ids: 'uuid', body, filters: ['otherId'] })
        return defined({ resources: [one, two, three, own] }).tables
      }
      await start(referring(one))
      await add(2)
      await start(referring(two))
      const { rows: keys } = await db.engine.foreignKeysOf('resource_items').execute(db.read)
      assert.deepEqual(
        keys.map(({ column, table }) => [column, table]),
        [['other_id', 'resource_twos']],
      )
      await assert.rejects(start(referring(three)), /the field otherId is declared as integer, but stored as uuid/)
      const without = defined({
        resources: [
          one,
          two,
          three,
          collection({ path: '/items', noun: 'item', ids: 'uuid', body: Type.Object({ name }) }),
        ],
      }).tables
      await assert.rejects(start(without), (error: Error) => {
        const steps = error.message.split('\n').slice(1)
        const type = engine.name === 'postgres' ? 'uuid' : 'text'
        assert.equal(steps[0], `    alter table "resource_items" add column "other_id_old" ${type};`)
        return true
      })
    })
  })
})
