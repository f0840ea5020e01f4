import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { service } from '../../src/definition/service.ts'
import { Line } from '../../src/http/text-rules.ts'
import { reportKinds } from '../../src/mount-versions.ts'
import { formats } from '../../src/reports/formats/formats.ts'
import { type ReportKind, type ReportQuery, readOf } from '../../src/reports/report-types.ts'
import { collection } from '../../src/resources/collection.ts'
import { Day, Email, Instant, Price, Text, Title } from '../../src/resources/field-types.ts'
import { openSnapshot } from '../../src/storage/open.ts'
import { appOn, type TestApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { unzip } from '../support/zip.ts'

const things = collection({
  path: '/line-items',
  noun: 'lineItem',
  body: Type.Object({
    title: Title,
    code: Line(1, 20),
    owner: Type.Optional(Email),
    text: Type.Optional(Text()),
    free: Type.Optional(Type.String()),
    count: Type.Integer(),
    weight: Type.Optional(Type.Number()),
    price: Type.Optional(Price),
    isOpen: Type.Optional(Type.Boolean()),
    state: Type.Enum(['new', 'Done']),
    due: Type.Optional(Day),
    startsAt: Type.Optional(Instant),
    tags: Type.Optional(Type.Array(Type.String(), { maxItems: 3 })),
    place: Type.Optional(Type.Object({ street: Type.String(), number: Type.Optional(Type.Integer()) })),
    order: Type.Optional(Type.Integer({ minimum: 1, maximum: 5 })),
  }),
  filters: ['title', 'state', 'isOpen', 'count', 'due', 'startsAt'],
  ranges: ['count', 'price', 'due', 'startsAt'],
  search: ['title', 'text'],
  sorts: ['title', 'count', 'state'],
  unique: ['code', 'owner'],
})
const definition = service({ resources: [things] })
const scopes = 'line-items:read line-items:write reports:read reports:write'
const whole = {
  title: 'Ä first',
  code: 'A1',
  owner: 'ada@example.com',
  text: 'several\nlines',
  free: 'any\ttext',
  count: -9_007_199_254_740_991,
  weight: 1.25,
  price: 9.99,
  isOpen: false,
  state: 'Done',
  due: '2026-03-01',
  startsAt: '2026-03-01T12:00:00.000Z',
  tags: ['a', '"b"'],
  place: { street: 'Main St', number: 1 },
  order: 2,
}

forEachEngine((engine) => {
  describe('a declared resource', () => {
    const service = appOn(engine, { definition })
    let made = 0
    const url = '/line-items'
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const post = (payload: object) => send({ method: 'POST', url, payload })
    const fresh = (more: object = {}) => ({ title: 'Thing', code: `C${++made}`, count: 1, state: 'new', ...more })
    const create = async (more: object = {}) => {
      const answer = await post(fresh(more))
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json()
    }
    const titles = async (query: string) => {
      const answer = await send({ url: `${url}?${query}` })
      assert.equal(answer.statusCode, 200, answer.body)
      return answer.json().map(({ title }: { title: string }) => title)
    }

    it('201 for values of every type, then 200 with the same values', async () => {
      const answer = await post(whole)
      assert.equal(answer.statusCode, 201, answer.body)
      const { id, createdAt, updatedAt, ...rest } = answer.json()
      assert.deepEqual(rest, whole)
      assert.equal(answer.headers.location, `/line-items/${id}`)
      assert.equal(answer.headers.etag, '"1"')
      assert.deepEqual((await send({ url: `/v1/line-items/${id}` })).json(), { id, ...whole, createdAt, updatedAt })
      assert.deepEqual((await send({ url: `${url}?title=${encodeURIComponent('ä FIRST')}` })).json(), [
        { id, ...whole, createdAt, updatedAt },
      ])
    })

    it('200 with instants converted to UTC; filters accept any offset', async () => {
      const { id, startsAt } = await create({ startsAt: '2020-03-01T13:00:00+02:00' })
      assert.equal(startsAt, '2020-03-01T11:00:00.000Z')
      const query = `startsAt=${encodeURIComponent('2020-03-01T12:00:00+01:00')}`
      assert.deepEqual(
        (await send({ url: `${url}?${query}` })).json().map((item: { id: number }) => item.id),
        [id],
      )
    })

    it('200 for filtering by the largest safe integer', async () => {
      const count = 9_007_199_254_740_991
      const { id } = await create({ count })
      const found = await send({ url: `${url}?count=${count}` })
      assert.deepEqual([found.statusCode, found.json()[0]?.id], [200, id])
    })

    it('200 for a PATCH that merges objects and removes fields with null, and a PUT that omits fields', async () => {
      const { id } = await create({ isOpen: true, place: { street: 'A', number: 1 }, tags: ['x'] })
      const patch = { isOpen: false, place: { number: null }, tags: null }
      const patched = await send({ method: 'PATCH', url: `${url}/${id}`, payload: patch })
      const { isOpen, place, tags } = patched.json()
      assert.deepEqual([patched.statusCode, isOpen, place, tags], [200, false, { street: 'A' }, undefined])
      const put = await send({ method: 'PUT', url: `${url}/${id}`, payload: fresh() })
      assert.deepEqual([put.statusCode, put.json().isOpen, put.headers.etag], [200, undefined, '"3"'])
      assert.equal((await send({ method: 'DELETE', url: `${url}/${id}` })).statusCode, 204)
      assert.equal((await send({ url: `${url}/${id}` })).statusCode, 404)
    })

    it('200 for filters by each type of value', async () => {
      await create({ title: 'F1', isOpen: true, count: 77, due: '2030-01-01', price: 5 })
      await create({ title: 'F2', isOpen: false, count: 78, due: '2030-01-02', price: 6.5 })
      assert.deepEqual(await titles('isOpen=true&minCount=77'), ['F1'])
      assert.deepEqual(await titles('isOpen=false&minCount=77'), ['F2'])
      assert.deepEqual(await titles('count=78'), ['F2'])
      assert.deepEqual(await titles('due=2030-01-01'), ['F1'])
      assert.deepEqual(await titles('dueAfter=2030-01-01'), ['F2'])
      assert.deepEqual(await titles('dueAfter=2029-01-01&dueBefore=2030-01-02'), ['F1'])
      assert.deepEqual(await titles('minPrice=5.5&maxPrice=7'), ['F2'])
      assert.deepEqual(await titles('state=done&count=78'), [])
      assert.deepEqual(await titles('startsAfter=2040-01-01'), [])
    })

    it('200 with the rows that contain q in a searched field, ignoring case; wildcards are literal', async () => {
      await create({ title: 'Needle in title' })
      await create({ title: 'S2', text: 'a nEEdle\nin text, 100%' })
      await create({ title: 'S3', free: 'needle where nobody looks' })
      assert.deepEqual(await titles('q=NEEDLE'), ['Needle in title', 'S2'])
      assert.deepEqual(await titles('q=100%25'), ['S2'])
      assert.deepEqual(await titles('q=%25needle'), [])
    })

    it('200 with pages that neither skip nor repeat rows, for each sort', async () => {
      for (const sort of ['title', '-count', 'state,-title', '-createdAt', 'id']) {
        const all: number[] = []
        for (let next: string | undefined = `${url}?limit=2&sort=${sort}`; next; ) {
          const page = await send({ url: next })
          assert.equal(page.statusCode, 200, page.body)
          all.push(...page.json().map(({ id }: { id: number }) => id))
          next = /<([^>]+)>; rel="next"/.exec(String(page.headers.link))?.[1]
        }
        const { length } = (await send({ url: `${url}?limit=200` })).json()
        assert.deepEqual([all.length, new Set(all).size], [length, length], sort)
      }
    })

    const malformed: [query: string, field: string][] = [
      ['isOpen=yes', 'isOpen'],
      ['count=1.5', 'count'],
      ['minCount=abc', 'minCount'],
      ['maxCount=99999999999999999', 'maxCount'],
      ['count=-9007199254740992', 'count'],
      ['startsAfter=yesterday', 'startsAfter'],
      ['sort=isOpen', 'sort'],
      ['sort=tags', 'sort'],
      ['sort=revision', 'sort'],
    ]
    for (const [query, field] of malformed) {
      it(`400 for ${query}`, async () => {
        const answer = await send({ url: `${url}?${query}` })
        assert.deepEqual([answer.statusCode, answer.json().errors?.[0].field], [400, field], answer.body)
      })
    }

    const broken: [what: string, change: object, status: number, field: string | undefined][] = [
      ['NUL in free text', { free: 'a\0b' }, 422, 'free'],
      ['half a surrogate pair', { free: 'a\ud800' }, 422, 'free'],
      ['an instant that does not exist', { startsAt: '2026-13-01T00:00:00Z' }, 422, 'startsAt'],
      ['an instant beyond the year 9999 in UTC', { startsAt: '9999-12-31T23:59:59-01:00' }, 422, 'startsAt'],
      ['a leap second', { startsAt: '2016-12-31T23:59:60Z' }, 422, 'startsAt'],
      ['an integer beyond the safe range', { count: -(2 ** 53) }, 400, undefined],
      ['a day that does not exist', { due: '2026-02-30' }, 422, 'due'],
      ['an unknown state', { state: 'done' }, 422, 'state'],
      ['a list that is too long', { tags: ['a', 'b', 'c', 'd'] }, 422, 'tags'],
      ['text for a boolean', { isOpen: 'true' }, 400, 'isOpen'],
      ['a number for text inside an object', { place: { street: 1 } }, 400, 'place.street'],
    ]
    for (const [what, change, status, field] of broken) {
      it(`${status} for ${what}, and nothing is stored (T-API-06)`, async () => {
        const before = (await send({ url: `${url}?limit=200` })).json().length
        const answer = await post(fresh(change))
        assert.deepEqual([answer.statusCode, answer.json().errors?.[0].field], [status, field], answer.body)
        assert.equal((await send({ url: `${url}?limit=200` })).json().length, before)
      })
    }

    it('409 for an existing value in a unique field, ignoring case; the error names the field', async () => {
      await create({ code: 'Unique', owner: 'one@example.com' })
      const taken = async (more: object) => (await post(fresh(more))).json()
      assert.deepEqual((await taken({ code: 'uNIQUE' })).errors[0].field, 'code')
      const answer = await taken({ owner: 'ONE@example.com' })
      assert.deepEqual([answer.errorCode, answer.errors[0].field], ['DUPLICATE_RESOURCE', 'owner'])
      await create({})
      await create({})
    })

    it('401 without a token, 403 without the scope named after the path (T-API-02)', async () => {
      assert.equal((await send({ url, scopes: null })).statusCode, 401)
      const writer = await send({ url, scopes: 'line-items:write' })
      assert.match(String(writer.headers['www-authenticate']), /scope="line-items:read"/)
      assert.equal(writer.statusCode, 403)
      assert.equal((await send({ method: 'POST', url, payload: fresh(), scopes: 'line-items:read' })).statusCode, 403)
    })

    it('404 for the paths of built-in resources that the definition omits', async () => {
      for (const path of ['/products', '/users', '/v1/books']) assert.equal((await send({ url: path })).statusCode, 404)
    })

    it('is in the OpenAPI document with its routes, scopes, parameters and events', async () => {
      const document = (await send({ url: '/openapi.json' })).json()
      assert.deepEqual(Object.keys(document.paths['/line-items']), ['get', 'post'])
      assert.equal(document.paths['/line-items'].get.operationId, 'listLineItems')
      assert.deepEqual(document.paths['/line-items'].get.security[1], { oauth2: ['line-items:read'] })
      assert.ok(document.paths['/line-items'].post.responses['409'])
      const parameters = document.paths['/line-items'].get.parameters.map(
        ({ name, $ref }: { name?: string; $ref?: string }) => name ?? $ref,
      )
      for (const name of ['isOpen', 'minCount', 'dueAfter', 'startsBefore']) assert.ok(parameters.includes(name), name)
      const { scopes: known } = document.components.securitySchemes.oauth2.flows.clientCredentials
      assert.equal(known['line-items:write'], 'Create, change and delete line items')
      assert.ok(!('users:read' in known))
      assert.ok(document.webhooks['lineItem.created'])
      assert.ok(!document.paths['/products'])
    })

    it('202 for a report that filters an integer field by fractions', async () => {
      for (const minCount of [0.5, -2.5]) {
        const payload = { reportType: 'line-items', format: 'pdf', parameters: { filter: { minCount } } }
        const created = await send({ method: 'POST', url: '/api/reports', payload })
        assert.equal(created.statusCode, 202, `${minCount}: ${created.body}`)
      }
    })

    it('is included in reports, with booleans and lists in JSON, XLSX and CSV', async () => {
      const [kind] = reportKinds(definition) as [ReportKind]
      assert.deepEqual(
        (await send({ url: '/api/report-types' })).json().map((type: { reportType: string }) => type.reportType),
        ['line-items', 'activity', 'deliveries'],
      )
      const refused = await send({
        method: 'POST',
        url: '/api/reports',
        payload: { reportType: 'line-items', format: 'csv' },
        scopes: 'reports:write',
      })
      assert.equal(refused.statusCode, 403)
      const viewer = { clientId: '', subject: '', isAdmin: false }
      const pages = async (asked: ReportQuery) => {
        const snapshot = await openSnapshot(service.db.url)
        return Array.fromAsync(snapshot.pages(readOf(service.db, kind, asked, viewer))).finally(snapshot.close)
      }
      const [cells] = (await pages({})).flat()
      const of = (name: string) => cells?.[kind.columns.findIndex((column) => column.name === name)]
      assert.deepEqual([of('isOpen'), of('tags'), of('count')], [false, '["a","\\"b\\""]', whole.count])
      const found = async (filter: ReportQuery['filter'] = {}) =>
        (await pages({ filter: { title: whole.title, ...filter } })).flat().length
      assert.equal(await found({ isOpen: true }), 0)
      assert.equal(await found({ isOpen: false, dueAfter: '2026-02-28', dueBefore: '2026-03-02' }), 1)
      assert.equal(await found({ dueAfter: '2026-03-01' }), 0)
      assert.equal(await found({ minCount: -1e20, maxCount: 0.5 }), 1)
      assert.equal(await found({ minCount: 0.5 }), 0)
      const text = async (format: string) => {
        const flowing = (async function* () {
          yield [cells as unknown[]]
        })()
        const sheet = { title: '', columns: kind.columns, rowCount: 1, madeAt: '2026-03-01T12:00:00.000Z', font: null }
        return Buffer.concat(
          await Array.fromAsync(formats.get(format)!.render(sheet, flowing), (part) => Buffer.from(part as string)),
        )
      }
      const [shown] = JSON.parse(String(await text('json')))
      assert.deepEqual([shown.tags, shown.isOpen], [whole.tags, false])
      const worksheet =
        unzip(await text('xlsx'))
          .get('xl/worksheets/sheet1.xml')
          ?.toString() ?? ''
      assert.ok(worksheet.includes('<c t="b"><v>0</v></c>'))
      assert.match(String(await text('csv')), /,false,Done,2026-03-01,2026-03-01T12:00:00\.000Z,"\[""a"",/)
    })
  })
})
