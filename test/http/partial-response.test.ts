import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Type } from 'typebox'
import { partialSchema } from '../../src/http/partial-schema.ts'
import { type Mounted, mount, send } from './support.ts'

const book = {
  id: 7,
  title: 'Emma',
  author: 'Jane Austen',
  revision: 3,
  notes: {},
  tags: [],
  editions: [{ year: 1815, place: 'London' }, { place: 'Bath' }],
  _links: { self: { href: '/books/7' }, update: { href: '/books/7', method: 'PUT' } },
}
const config = { scope: 'public', fields: true } as const

const Shapes = partialSchema(
  Type.Object({
    size: Type.Object({ width: Type.Number(), height: Type.Number() }),
    all: Type.Array(
      Type.Union([
        Type.Object({ kind: Type.Literal('circle'), radius: Type.Number() }),
        Type.Object({ kind: Type.Literal('square'), side: Type.Number() }),
      ]),
    ),
  }),
)
const shapes = {
  size: { width: 2, height: 3 },
  all: [
    { kind: 'circle', radius: 1 },
    { kind: 'square', side: 2 },
  ],
}

describe('the `fields` parameter', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['partialResponse'], (app) => {
      app.get('/book', { config }, async () => book)
      app.get('/books', { config }, async () => [book, { id: 8, title: 'Persuasion' }])
      app.get('/shapes', { config, schema: { response: { 200: Shapes } } }, async () => shapes)
      app.get('/whole', { config: { scope: 'public' } }, async () => book)
    })
  })
  after(() => mounted.app.close())

  const read = async (query: string, path = '/book') => {
    const answer = await send(mounted, { url: `${path}?${query}` })
    assert.equal(answer.statusCode, 200, query)
    return answer.json()
  }
  const refused = async (query: string) => {
    const answer = await send(mounted, { url: `/book?${query}` })
    assert.equal(answer.statusCode, 400, query.slice(0, 80))
    assert.equal(answer.json().errorCode, 'INVALID_INPUT')
    assert.equal(answer.json().errors[0].field, 'fields')
  }

  it('200 with only the requested fields, and without `id` unless requested', async () => {
    assert.deepEqual(await read('fields=title'), { title: 'Emma' })
    assert.deepEqual(await read('fields=author,id'), { author: 'Jane Austen', id: 7 })
    assert.deepEqual(await read('fields=title,%20id%20,title'), { title: 'Emma', id: 7 })
  })

  it('200 for unknown names, which are ignored', async () => {
    assert.deepEqual(await read('fields=title,nothing'), { title: 'Emma' })
    assert.deepEqual(await read('fields=nothing'), {})
    assert.deepEqual(await read('fields=Title'), {})
  })

  it('200 without prototype members (T-API-04)', async () => {
    for (const name of [
      '__proto__',
      'constructor',
      'toString',
      'title.length',
      '_links.constructor',
      '__proto__.title',
    ]) {
      assert.deepEqual(await read(`fields=${name}`), {}, name)
    }
  })

  it('200 with the members of nested objects selected by dotted paths', async () => {
    assert.deepEqual(await read('fields=_links.self'), { _links: { self: { href: '/books/7' } } })
    assert.deepEqual(await read('fields=id,_links.update.method'), { id: 7, _links: { update: { method: 'PUT' } } })
    assert.deepEqual(await read('fields=_links.self.href,_links.update.href'), {
      _links: { self: { href: '/books/7' }, update: { href: '/books/7' } },
    })
  })

  it('200 with the whole field if the field and one of its members are both requested', async () => {
    for (const query of ['fields=_links,_links.self', 'fields=_links.self,_links']) {
      assert.deepEqual(await read(query), { _links: book._links }, query)
    }
  })

  it('200 with an empty object for paths into strings or numbers, because such paths are ignored', async () => {
    assert.deepEqual(await read('fields=title.first,id.x'), {})
  })

  it('200 without a nested object if none of its selected members exist; an empty object is kept if selected by name', async () => {
    assert.deepEqual(await read('fields=_links.nothing,_links.self.href.x,title'), { title: 'Emma' })
    assert.deepEqual(await read('fields=notes.x,tags.x'), {})
    assert.deepEqual(await read('fields=notes,tags'), { notes: {}, tags: [] })
  })

  it('200 with the items of nested lists in their original positions', async () => {
    assert.deepEqual(await read('fields=editions.year'), { editions: [{ year: 1815 }, {}] })
    assert.deepEqual(await read('fields=editions.nothing'), {})
  })

  it('200 for a path of any length (T-RES-01)', async () => {
    assert.deepEqual(await read(`fields=title,${'a.'.repeat(3_000)}a,${'_links.'.repeat(100)}self`), {
      title: 'Emma',
    })
  })

  it('200 with all fields when `fields` is empty or absent', async () => {
    for (const query of ['fields=', '', 'fields=,', 'fields']) assert.deepEqual(await read(query), book, query)
  })

  it('200 with the selected members of required objects and of objects with several variants', async () => {
    assert.deepEqual(await read('', '/shapes'), shapes)
    assert.deepEqual(await read('fields=size.width', '/shapes'), { size: { width: 2 } })
    assert.deepEqual(await read('fields=all.side', '/shapes'), { all: [{}, { side: 2 }] })
  })

  it('200 for a list, with only the requested fields of each item', async () => {
    assert.deepEqual(await read('fields=title', '/books'), [{ title: 'Emma' }, { title: 'Persuasion' }])
    assert.deepEqual(await read('fields=author', '/books'), [{ author: 'Jane Austen' }, {}])
  })

  it('200 with all fields on a route that does not support `fields`', async () => {
    assert.deepEqual(await read('fields=title', '/whole'), book)
  })

  it('200 for up to 50 names, 400 for more', async () => {
    const names = (count: number) => Array.from({ length: count }, (_, at) => `f${at}`).join(',')
    assert.deepEqual(await read(`fields=${names(49)},title`), { title: 'Emma' })
    await refused(`fields=${names(51)}`)
  })

  it('400 if `fields` is repeated (T-API-06)', async () => {
    await refused('fields=title&fields=id')
    await refused('fields=title&fields=')
  })
})
