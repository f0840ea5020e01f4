import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Mounted, mount, send } from './support.ts'

const book = {
  id: 7,
  title: 'Emma',
  author: 'Jane Austen',
  revision: 3,
  _links: { self: { href: '/books/7' }, update: { href: '/books/7', method: 'PUT' } },
}
const config = { scope: 'public', fields: true } as const

describe('fields', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['fields'], (app) => {
      app.get('/book', { config }, async () => book)
      app.get('/books', { config }, async () => [book, { id: 8, title: 'Persuasion' }])
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

  it('200 with the named fields only, `id` not forced in', async () => {
    assert.deepEqual(await read('fields=title'), { title: 'Emma' })
    assert.deepEqual(await read('fields=author,id'), { author: 'Jane Austen', id: 7 })
    assert.deepEqual(await read('fields=title,%20id%20,title'), { title: 'Emma', id: 7 })
  })

  it('200 with unknown names left out without error', async () => {
    assert.deepEqual(await read('fields=title,nothing'), { title: 'Emma' })
    assert.deepEqual(await read('fields=nothing'), {})
    assert.deepEqual(await read('fields=Title'), {})
  })

  it('200 with nothing of a prototype (T-API-04)', async () => {
    for (const name of [
      '__proto__',
      'constructor',
      'toString',
      'title.length',
      '_links.constructor',
      '__proto__.title',
    ]) {
      const picked = await read(`fields=${name}`)
      assert.deepEqual(picked, name.startsWith('_links') ? { _links: {} } : {}, name)
    }
  })

  it('200 with dotted paths that reach into objects', async () => {
    assert.deepEqual(await read('fields=_links.self'), { _links: { self: { href: '/books/7' } } })
    assert.deepEqual(await read('fields=id,_links.update.method'), { id: 7, _links: { update: { method: 'PUT' } } })
    assert.deepEqual(await read('fields=_links.self.href,_links.update.href'), {
      _links: { self: { href: '/books/7' }, update: { href: '/books/7' } },
    })
  })

  it('200 with the whole of a field that is named whole and in part', async () => {
    for (const query of ['fields=_links,_links.self', 'fields=_links.self,_links']) {
      assert.deepEqual(await read(query), { _links: book._links }, query)
    }
  })

  it('200 without a path that leads into text or a number, which does not exist', async () => {
    assert.deepEqual(await read('fields=title.first,id.x'), {})
  })

  it('200 however long the path (T-RES-01)', async () => {
    assert.deepEqual(await read(`fields=title,${'a.'.repeat(3_000)}a,${'_links.'.repeat(100)}self`), {
      title: 'Emma',
      _links: {},
    })
  })

  it('200 with everything when `fields` is empty or absent', async () => {
    for (const query of ['fields=', '', 'fields=,', 'fields']) assert.deepEqual(await read(query), book, query)
  })

  it('200 with each item of a list narrowed', async () => {
    assert.deepEqual(await read('fields=title', '/books'), [{ title: 'Emma' }, { title: 'Persuasion' }])
    assert.deepEqual(await read('fields=author', '/books'), [{ author: 'Jane Austen' }, {}])
  })

  it('200 untouched where the route is not narrowed', async () => {
    assert.deepEqual(await read('fields=title', '/whole'), book)
  })

  it('200 with 50 names, 400 with more', async () => {
    const names = (count: number) => Array.from({ length: count }, (_, at) => `f${at}`).join(',')
    assert.deepEqual(await read(`fields=${names(49)},title`), { title: 'Emma' })
    await refused(`fields=${names(51)}`)
  })

  it('400 when it is repeated (T-API-06)', async () => {
    await refused('fields=title&fields=id')
    await refused('fields=title&fields=')
  })
})
