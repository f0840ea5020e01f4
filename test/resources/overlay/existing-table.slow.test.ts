import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import { Type } from 'typebox'
import { service } from '../../../src/definition/service.ts'
import { storedDefinition } from '../../../src/definition/stored.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import type { Collection } from '../../../src/resources/declaration.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { view } from '../../../src/resources/views/view.ts'
import { migrateThoroughly } from '../../../src/storage/migrate-thoroughly.ts'
import { successiveAppsOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { reportFile } from '../../support/report-files.ts'
import { legacyTables } from './legacy.ts'

const authors = collection({
  ...{ path: '/writers', noun: 'writer', table: 'legacy_authors', columns: { name: 'full_name' } },
  body: Type.Object({ name: Line(1, 60) }),
  computed: { written: { count: 'titles' }, earned: { sum: 'titles.price', as: Decimal(18, 2) } },
  filters: ['name'],
  search: ['name'],
})
const titles = collection({
  ...{ path: '/titles', noun: 'title', table: 'legacy_books' },
  columns: { title: 'book_title', writerId: 'author_no', available: 'in_stock', price: 'price_cents' },
  body: Type.Object({
    title: Line(1, 80),
    writerId: Type.Optional(Ref(authors)),
    pages: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000 })),
    available: Type.Optional(Type.Boolean()),
    price: Type.Optional(Decimal(12, 2)),
    published: Type.Optional(Type.String({ format: 'date' })),
    label: Type.Optional(Line(1, 40)),
    state: Type.Enum(['draft', 'final'], { default: 'final' }),
    shelf: Line(1, 90),
  }),
  filters: ['title', 'pages', 'available', 'price', 'published', 'label', 'state', 'shelf', 'writerId', 'isLong'],
  ranges: ['pages', 'price', 'published'],
  ...{ search: ['title', 'label'], sorts: ['title', 'label'], unique: ['title'] },
  computed: { isLong: { when: { pages: { from: 400 } } } },
  migrate: { fill: { shelf: (row) => `${row.title} ${row.price ?? '-'}` } },
})
const definition = service({
  resources: [authors, titles],
  versions: { v1: [authors, titles], v2: [authors, view(titles, { rename: { title: 'heading', pages: 'leaves' } })] },
})
const scopes = 'titles:read titles:write writers:read writers:write reports:read reports:write'

forEachEngine((engine) => {
  describe('a collection over an existing table', () => {
    const { state, start } = successiveAppsOn(engine)
    const { run, create, key } = legacyTables(engine, state)
    const get = async ({ send }: TestApp, url: string) => {
      const response = await send({ url: `/v1${url}`, scopes })
      assert.equal(response.statusCode, 200, response.body)
      return response.json()
    }
    const ids = async (app: TestApp, query: string) =>
      (await get(app, `/titles?${query}`)).map(({ id }: { id: number }) => id)

    it('200 with the matching rows for all filters, sorts, bounds and searches', async () => {
      await create()
      const { service: app } = await start(definition)
      const { createdAt, updatedAt, ...dune } = await get(app, '/titles/1')
      assert.equal(createdAt, updatedAt)
      assert.deepEqual(dune, {
        ...{ id: 1, title: 'Dune', writerId: 2, pages: 412, available: true, price: '12.50', published: '1965-08-01' },
        ...{ label: 'SciFi', state: 'final', shelf: 'Dune 12.50', isLong: true },
      })
      const found = [
        ['', [1, 2, 3, 4]],
        ['sort=title', [1, 3, 4, 2]],
        ['sort=-title', [2, 4, 3, 1]],
        ['sort=-title&limit=2', [2, 4]],
        ['sort=label,id', [2, 3, 4, 1]],
        ['sort=-id', [4, 3, 2, 1]],
        ['title=ÉMILE', [2]],
        ['title=dUNE', [1]],
        ['title[prefix]=em', [3, 4]],
        ['q=mil', [2]],
        ['q=SCIFI', [1]],
        ['label=scifi', [1]],
        ['label[null]=true', [2, 3]],
        ['pages=412', [1]],
        ['pages=99999999999', []],
        ['pages[in]=99999999999,412', [1]],
        ['pages[not]=99999999999', [1, 2, 3, 4]],
        ['minPages=99999999999', []],
        ['maxPages=99999999999', [1, 2]],
        ['maxPages=411', [2]],
        ['isLong=true', [1]],
        ['available=true', [1]],
        ['available=false', [2]],
        ['price=12.5', [1]],
        ['minPrice=12.51', [2]],
        ['price=9999999999.99', []],
        ['publishedBefore=1900-01-01', [2, 3]],
        ['published[from]=1815-12-23', [1, 3]],
        ['state=final&shelf=emma -', [3]],
        ['writerId=2', [1]],
        ['writerId=2147483648', []],
        ['writer.name=frank herbert', [1]],
        ['sort=-writer.name', [3, 1, 4, 2]],
      ] as const
      for (const [query, expected] of found) {
        assert.deepEqual(await ids(app, encodeURI(query)), expected, query)
      }
      assert.deepEqual((await get(app, '/titles?expand=writer&pages=412'))[0].writer.name, 'Frank Herbert')
      assert.deepEqual(
        (await get(app, '/writers/2/titles')).map(({ id }: { id: number }) => id),
        [1],
      )
      const { written, earned } = await get(app, '/writers/2')
      assert.deepEqual([written, earned], [1, '12.50'])
      const next = await app.send({ url: '/v1/titles?sort=title&limit=2', scopes })
      const url = /<[^>]*(\/v1\/titles[^>]*)>; rel="next"/.exec(String(next.headers.link))?.[1] as string
      assert.deepEqual(
        (await app.send({ url, scopes })).json().map(({ id }: { id: number }) => id),
        [4, 2],
      )
      const [seen] = (await app.send({ url: '/v2/titles?heading=dune', scopes })).json().items
      assert.deepEqual([seen.heading, seen.leaves], ['Dune', 412])
    })

    it('stores valid writes, refuses conflicting or invalid ones with 409, 412 or 422, and leaves undeclared columns unchanged', async () => {
      await create()
      const { service: app } = await start(definition)
      const send = (method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', url: string, payload?: object, headers = {}) =>
        app.send({ method, url: `/v1${url}`, scopes, headers, ...(payload && { payload }) })
      const created = await send('POST', '/titles', { title: 'Solaris', shelf: 'B', pages: 204, price: '7.9' })
      assert.equal(created.statusCode, 201, created.body)
      const { id } = created.json()
      const patched = await send('PATCH', '/titles/1', { pages: 500 }, { 'if-match': '"1"' })
      assert.equal(patched.statusCode, 412)
      const { headers } = await app.send({ url: '/v1/titles/1', scopes })
      const matching = { 'if-match': String(headers.etag) }
      assert.equal((await send('PATCH', '/titles/1', { pages: 500 }, matching)).statusCode, 200)
      assert.equal((await send('PATCH', '/titles/1', { pages: 501 }, matching)).statusCode, 412)
      assert.equal((await send('PUT', '/titles/2', { title: 'Emil', shelf: 'C' })).statusCode, 200)
      for (const duplicate of ['EMMA', 'solaris']) {
        const refused = await send('POST', '/titles', { title: duplicate, shelf: 'A' })
        assert.deepEqual([refused.statusCode, refused.json().errors[0].field], [409, 'title'])
      }
      const dangling = await send('PATCH', '/titles/1', { writerId: 99 })
      assert.deepEqual([dangling.statusCode, dangling.json().errors[0].field], [422, 'writerId'])
      assert.equal((await send('DELETE', '/writers/2')).statusCode, 409)
      assert.equal((await send('DELETE', '/titles/3')).statusCode, 204)
      assert.equal((await send('DELETE', '/titles/3')).statusCode, 404)
      assert.equal((await app.send({ url: '/v1/titles/2', scopes })).json().title, 'Emil')
      const { rows } = await sql<Record<string, unknown>>`
        select id, book_title, pages, price_cents, legacy_code, revision from legacy_books order by id`.execute(
        state.db.read,
      )
      assert.deepEqual(
        rows.map((row) => Object.values(row)),
        [
          [1, 'Dune', 500, 1250, 'D-1', 4],
          [2, 'Emil', null, null, 'E-2', 4],
          [4, 'Emmeline', null, null, null, 3],
          [id, 'Solaris', 204, 790, null, 1],
        ],
      )
      assert.deepEqual(await ids(app, 'q=sol'), [id])
    })

    it('can be used in reports, with its field names as columns and filters', async () => {
      await create()
      const { service: app } = await start(definition)
      const at = {
        service: { ...app, db: state.db },
        definition: await storedDefinition(state.db.read, definition),
        scopes,
      }
      const lines = async (filter: object, format: string) =>
        String(await reportFile(at, 'titles', { filter, fields: 'id,title,price' }, { format })).trim()
      const header = '\uFEFFid,title,price\r\n'
      assert.equal(await lines({ title: 'dune' }, 'csv'), `${header}1,Dune,12.50`.trim())
      assert.equal(await lines({ maxPages: 300 }, 'csv'), `${header}2,ÉMILE,19.99`.trim())
      assert.equal(await lines({ price: '12.5' }, 'csv'), `${header}1,Dune,12.50`.trim())
      assert.equal(await lines({ pages: 99_999_999_999 }, 'csv'), header.trim())
      assert.equal(await lines({ minPages: 99_999_999_999 }, 'csv'), header.trim())
      assert.deepEqual(JSON.parse(await lines({ writerId: 1 }, 'json')), [{ id: 3, title: 'emma' }])
    })

    it('404 for rows of other callers under access rules; createdBy is stored in the declared column', async () => {
      await create()
      await run('alter table legacy_books add column created_by integer')
      const body = Type.Object({ title: Line(1, 80), label: Type.Optional(Line(1, 40)) })
      const ruled = (columns: { createdBy?: string }) =>
        service({
          resources: [
            collection({
              ...{ path: '/titles', noun: 'title', table: 'legacy_books', body },
              columns: { title: 'book_title', ...columns },
              access: (caller) => ({ any: [{ createdBy: caller.id }, { label: 'gothic' }] }),
            }),
          ],
        })
      await assert.rejects(start(ruled({})), /created_by \(createdBy\): found integer, expected text/)
      await run('alter table legacy_books add column clerk text', "update legacy_books set clerk = 'Bob' where id = 2")
      await assert.rejects(
        start(ruled({ createdBy: 'clerk' })),
        /clerk \(createdBy\): must be a creator such as user:7 or client:crm, in 1 row: id 2/,
      )
      const { service: app } = await start(ruled({ createdBy: 'made_by' }))
      const { headers } = await app.send({ method: 'POST', url: '/v1/titles', scopes, payload: { title: 'Own' } })
      const listed = async (sent: object) => (await app.send({ url: '/v1/titles', ...sent })).json()
      assert.deepEqual(
        (await listed({ scopes })).map((row: { title: string; createdBy?: string }) => [row.title, row.createdBy]),
        [
          ['Emmeline', undefined],
          ['Own', 'client:cli_test'],
        ],
      )
      const other = { token: token(scopes, 'cli_other') }
      assert.equal((await listed(other)).length, 1)
      assert.equal((await app.send({ url: String(headers.location), ...other })).statusCode, 404)
    })

    it('keeps the column of a renamed field, and refuses to convert a field', async () => {
      await create()
      const body = Type.Object({
        title: Line(1, 80),
        pages: Type.Optional(Type.Integer({ maximum: 9_999, minimum: 1 })),
      })
      const declared = { path: '/titles', noun: 'title', table: 'legacy_books' } as const
      const of = (one: Collection) => service({ resources: [one] })
      await start(of(collection({ ...declared, body, columns: { title: 'book_title' }, sorts: ['title'] })))
      const renamed = Type.Object({ heading: Line(1, 80), pages: body.properties.pages })
      const { done, service: app } = await start(
        of(collection({ ...declared, body: renamed, sorts: ['heading'], migrate: { renamed: { heading: 'title' } } })),
      )
      assert.deepEqual(done, ['-- rename title to heading, which keeps the column book_title; no row changes'])
      const [first] = (await app.send({ url: '/v1/titles?sort=heading', scopes })).json()
      assert.equal(first.heading, 'Dune')
      const converted = of(
        collection({
          ...{ ...declared, columns: { heading: 'book_title' }, sorts: ['heading'] },
          body: Type.Object({ heading: Line(1, 80), pages: Type.Optional(Line(1, 9)) }),
          migrate: { convert: { pages: (old: number) => String(old) } },
        }),
      )
      await assert.rejects(
        migrateThoroughly(state.db, { tables: converted.tables, exclude: async () => () => {} }),
        /\/titles: the field pages cannot be converted, because the service did not create the column pages of legacy_books. Declare a new field, and fill it/,
      )
    })

    it('gets a foreign key for a reference on PostgreSQL; the start fails on SQLite, which cannot add one', async () => {
      await create()
      await run('alter table legacy_books add column second_id bigint', 'update legacy_books set second_id = 2')
      const people = collection({
        path: '/people',
        noun: 'person',
        table: 'legacy_authors',
        body: Type.Object({ fullName: Line(1, 60) }),
      })
      const body = Type.Object({ title: Line(1, 80), secondId: Type.Optional(Ref(people)) })
      const books = collection({
        ...{ path: '/titles', noun: 'title', table: 'legacy_books', body },
        columns: { title: 'book_title' },
      })
      const starting = start(service({ resources: [people, books] }))
      if (engine.name === 'sqlite') {
        return assert.rejects(starting, /second_id \(secondId\): found no foreign key, expected one to legacy_authors/)
      }
      const { service: app } = await starting
      const sent = { method: 'DELETE', url: '/v1/people/2', scopes: 'people:write' } as const
      assert.equal((await app.send(sent)).statusCode, 409)
    })

    it('can refer to rows with UUIDs through a UUID column, but its own ids must be integers', async () => {
      const owners = collection({
        ...{ path: '/owners', noun: 'owner', ids: 'uuid', body: Type.Object({ name: Line(1, 60) }) },
      })
      const { service: first } = await start(service({ resources: [owners] }))
      const rights = 'owners:read owners:write pets:read pets:write'
      const payload = { name: 'Ada' }
      const ownerId = (await first.send({ method: 'POST', url: '/owners', scopes: rights, payload })).json().id
      const type = engine.name === 'sqlite' ? 'text' : 'uuid'
      await run(
        `create table legacy_pets (${key}, name text not null, owner_id ${type} references resource_owners (id), chip integer)`,
        `insert into legacy_pets (name, owner_id) values ('Rex', '${ownerId}'), ('Mia', null)`,
        `create table legacy_chips (id ${type} primary key, name text not null)`,
      )
      const over = (table: string, columns = {}) => {
        const body = Type.Object({ name: Line(1, 60), ownerId: Type.Optional(Ref(owners)) })
        const pets = collection({ path: '/pets', noun: 'pet', table, columns, body, filters: ['ownerId'] })
        return service({ resources: [owners, pets] })
      }
      const { service: app } = await start(over('legacy_pets'))
      const found = await app.send({ url: `/pets?ownerId=${ownerId.toUpperCase()}`, scopes: rights })
      assert.deepEqual(
        found.json().map((pet: { id: number; ownerId: string }) => [pet.id, pet.ownerId]),
        [[1, ownerId]],
      )
      const stray = { name: 'Kim', ownerId: ownerId.replace(/^./, 'f') }
      const refused = await app.send({ method: 'POST', url: '/pets', scopes: rights, payload: stray })
      assert.equal(refused.statusCode, 422, refused.body)
      const wrongId = new RegExp(
        `/pets: the table legacy_chips, .*\n *id: found ${type}, expected an integer primary key`,
      )
      await assert.rejects(start(over('legacy_chips')), wrongId)
      await run('create table legacy_toys as select id, name, chip from legacy_pets')
      const wrongType = new RegExp(`chip \\(ownerId\\): found int.*, expected ${type}`)
      await assert.rejects(start(over('legacy_toys', { ownerId: 'chip' })), wrongType)
    })

    it('is not changed by the next start', async () => {
      await create()
      await start(definition)
      assert.deepEqual((await start(definition)).done, [])
    })
  })
})
