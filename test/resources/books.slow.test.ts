import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { applyMergePatch } from '../../src/http/merge-patch.ts'
import { appOn, type TestApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

interface Book {
  id: number
  title: string
  author: string
  genre?: string
  createdAt: string
  updatedAt: string
  _links: Record<string, { href: string; method?: string }>
}

forEachEngine((engine) => {
  const service = appOn(engine)

  type Request = Parameters<TestApp['send']>[0]
  const send = (request: Request) => service.send(request)
  const emma = { title: 'Emma', author: 'Jane Austen', genre: 'Novel' }
  const create = async (body: object = emma, prefix = '') => {
    const answer = await send({ method: 'POST', url: `${prefix}/books`, payload: body })
    assert.equal(answer.statusCode, 201, answer.body)
    return answer.json() as Book
  }
  const list = async (query: string, prefix = '') => {
    const answer = await send({ url: `${prefix}/books?limit=200&${query}`, scopes: null })
    assert.equal(answer.statusCode, 200, answer.body)
    return answer.json() as Book[]
  }
  const titles = async (query: string) => (await list(query)).map(({ title }) => title)
  const is = async (request: Request, status: number, code: string) => {
    const answer = await send(request)
    assert.deepEqual([answer.statusCode, answer.json().errorCode], [status, code], answer.body)
    return answer
  }
  const linksOf = (id: number, prefix: string, author = 'Jane%20Austen') => ({
    self: { href: `${prefix}/books/${id}` },
    update: { href: `${prefix}/books/${id}`, method: 'PUT' },
    delete: { href: `${prefix}/books/${id}`, method: 'DELETE' },
    author: { href: `${prefix}/books?author=${author}` },
  })

  describe('POST /books', () => {
    it('201 with the book, its links, Location and ETag', async () => {
      const answer = await send({ method: 'POST', url: '/books', payload: emma })
      assert.equal(answer.statusCode, 201)
      const { id, createdAt, updatedAt, _links, ...rest } = answer.json() as Book
      assert.deepEqual(rest, emma)
      assert.deepEqual(_links, linksOf(id, ''))
      assert.equal(createdAt, updatedAt)
      assert.equal(answer.headers.location, `/books/${id}`)
      assert.equal(answer.headers.etag, '"1"')
    })

    it('201 without a genre', async () => {
      const book = await create({ title: 'Emma', author: 'Jane Austen' })
      assert.equal('genre' in book, false)
      assert.equal('genre' in (await send({ url: `/books/${book.id}` })).json(), false)
    })

    it('400 naming every missing field, 422 naming every invalid field', async () => {
      const missing = await is({ method: 'POST', url: '/books', payload: {} }, 400, 'MISSING_REQUIRED_FIELD')
      assert.deepEqual(
        missing.json().errors.map(({ field }: { field: string }) => field),
        ['title', 'author'],
      )
      const payload = { title: 'x'.repeat(301), author: 'x'.repeat(201), genre: '' }
      const broken = await is({ method: 'POST', url: '/books', payload }, 422, 'VALIDATION_ERROR')
      assert.deepEqual(
        broken.json().errors.map(({ field }: { field: string }) => field),
        ['title', 'author', 'genre'],
      )
      await is({ method: 'POST', url: '/books', payload: { ...emma, genre: null } }, 400, 'INVALID_INPUT')
    })

    it('201 for fields of the maximum length', async () => {
      await create({ title: 'x'.repeat(300), author: 'x'.repeat(200), genre: 'x'.repeat(50) })
    })

    it('401 without a token, 403 without books:write', async () => {
      await is({ method: 'POST', url: '/books', payload: emma, scopes: null }, 401, 'AUTH_REQUIRED')
      await is({ method: 'POST', url: '/books', payload: emma, scopes: 'products:write' }, 403, 'ACCESS_DENIED')
    })
  })

  describe('GET /books/{id}', () => {
    for (const prefix of ['', '/v1']) {
      it(`200, publicly cacheable for a minute, with links under ${prefix}/books`, async () => {
        const { id } = await create()
        const answer = await send({ url: `${prefix}/books/${id}`, scopes: null })
        assert.equal(answer.statusCode, 200)
        assert.deepEqual(answer.json()._links, linksOf(id, prefix))
        assert.equal(answer.headers['cache-control'], 'public, max-age=60, must-revalidate')
      })
    }

    it("200 with a link to the author's books, even if the name contains reserved characters", async () => {
      for (const author of ['A&B=C?#', 'Ünïcode / Œuvre', '100% "quoted"', "O'Brien+", 'a%20b']) {
        const { id } = await create({ title: 'T', author })
        const { _links } = (await send({ url: `/v1/books/${id}` })).json() as Book
        const found = await send({ url: _links.author?.href as string, scopes: null })
        assert.deepEqual(
          found.json().map((book: Book) => [book.id, book.author]),
          [[id, author]],
        )
      }
    })

    it('200 with only the requested fields and links', async () => {
      const { id } = await create()
      const answer = await send({ url: `/books/${id}?fields=title,_links.self` })
      assert.deepEqual(answer.json(), { title: 'Emma', _links: { self: { href: `/books/${id}` } } })
    })

    it('404 for an empty path segment, for any path and method, with or without a token', async () => {
      for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'POST', 'OPTIONS'] as const) {
        for (const url of ['/books/', '/users/', '/v2/products/?fields=id', '/api/reports//status']) {
          for (const scopes of [undefined, null]) {
            const answer = await send({ method, url, ...(scopes === null && { scopes }) })
            assert.equal(answer.statusCode, 404, `${method} ${url}`)
          }
        }
      }
    })

    it('404 when there is no such book', async () => {
      await is({ url: '/books/2147483647', scopes: null }, 404, 'RESOURCE_NOT_FOUND')
    })
  })

  describe('PUT /books/{id}', () => {
    it('200 when the GET representation is changed and sent back, including _links', async () => {
      const book = await create()
      const answer = await send({ method: 'PUT', url: `/books/${book.id}`, payload: { ...book, title: 'Persuasion' } })
      assert.equal(answer.statusCode, 200)
      assert.deepEqual(answer.json(), { ...book, title: 'Persuasion', updatedAt: answer.json().updatedAt })
      assert.equal(answer.headers.etag, '"2"')
    })

    it('200 when the request omits the genre, which is then removed', async () => {
      const { id } = await create({ ...emma, genre: 'Left Out' })
      assert.deepEqual(await titles('genre=left%20out'), ['Emma'])
      const payload = { title: 'Emma', author: 'Jane Austen' }
      assert.equal('genre' in (await send({ method: 'PUT', url: `/books/${id}`, payload })).json(), false)
      assert.deepEqual(await titles('genre=left%20out'), [])
    })

    it('200; lists then find the book by its new author and genre', async () => {
      const { id } = await create({ title: 'Moved', author: 'Old Author', genre: 'Old Genre' })
      await send({
        method: 'PUT',
        url: `/books/${id}`,
        payload: { title: 'Moved', author: 'New Author', genre: 'New Genre' },
      })
      assert.deepEqual(await titles('author=old%20author'), [])
      assert.deepEqual(await titles('genre=old%20genre'), [])
      assert.deepEqual(await titles('author=new%20author&genre=new%20genre'), ['Moved'])
    })

    it('412 when If-Match does not match, 404 when there is no such book', async () => {
      const { id } = await create()
      const request = { method: 'PUT', payload: emma, headers: { 'if-match': '"7"' } } as const
      await is({ ...request, url: `/books/${id}` }, 412, 'PRECONDITION_FAILED')
      await is({ ...request, url: '/books/2147483647' }, 404, 'RESOURCE_NOT_FOUND')
    })
  })

  describe('PATCH /books/{id}', () => {
    const patch = (id: number, payload: object) => send({ method: 'PATCH', url: `/books/${id}`, payload })

    it('200 when the genre is null, which removes it (RFC 7396)', async () => {
      const { id } = await create()
      const answer = await patch(id, { genre: null })
      assert.equal(answer.statusCode, 200)
      assert.equal('genre' in answer.json(), false)
      assert.equal('genre' in (await patch(id, { genre: null })).json(), false)
      assert.equal((await patch(id, { genre: 'Satire' })).json().genre, 'Satire')
    })

    it('400 for null in a required field, 422 when the merged book is invalid', async () => {
      const { id } = await create()
      const missing = await patch(id, { title: null, author: null })
      assert.deepEqual([missing.statusCode, missing.json().errorCode], [400, 'MISSING_REQUIRED_FIELD'])
      const broken = await patch(id, { title: '', genre: '\u0001' })
      assert.equal(broken.statusCode, 422)
      assert.deepEqual(
        broken.json().errors.map(({ field }: { field: string }) => field),
        ['title', 'genre'],
      )
    })
  })

  describe('DELETE /books/{id}', () => {
    it('204 with an empty body, then 404', async () => {
      const { id } = await create()
      const answer = await send({ method: 'DELETE', url: `/books/${id}` })
      assert.deepEqual([answer.statusCode, answer.body], [204, ''])
      await is({ method: 'DELETE', url: `/books/${id}` }, 404, 'RESOURCE_NOT_FOUND')
    })

    it('401 without a token, 403 without books:write', async () => {
      await is({ method: 'DELETE', url: '/books/1', scopes: null }, 401, 'AUTH_REQUIRED')
      await is({ method: 'DELETE', url: '/books/1', scopes: 'books:read' }, 403, 'ACCESS_DENIED')
    })
  })

  describe('GET /books', () => {
    before(async () => {
      for (const [title, author, genre] of [
        ['Der Process', 'Franz Kafka', 'Roman'],
        ['Das Schloss', 'FRANZ KAFKA', 'ROMAN'],
        ['Café', 'René', 'Poésie'],
        ['Cafe\u0301 II', 'Rene\u0301', 'Poe\u0301sie'],
        ['100 % wahr', 'A_B', 'Sach_buch'],
        ['1000 wahr', 'AxB', 'Sachxbuch'],
      ]) {
        await create({ title, author, genre })
      }
    })

    it('200 with the books of a genre, ignoring case', async () => {
      for (const genre of ['Roman', 'roman', 'ROMAN', '%52oman']) {
        assert.deepEqual(await titles(`genre=${genre}`), ['Der Process', 'Das Schloss'], genre)
      }
    })

    it('200 with the books of an author, ignoring case and Unicode form', async () => {
      assert.deepEqual(await titles('author=franz%20KAFKA'), ['Der Process', 'Das Schloss'])
      for (const author of ['René', 'RENÉ', 'rene\u0301']) {
        assert.deepEqual(await titles(`author=${encodeURIComponent(author)}`), ['Café', 'Cafe\u0301 II'], author)
      }
    })

    it('200 with both filters combined, and [] when nothing matches', async () => {
      assert.deepEqual(await titles('genre=roman&author=franz%20kafka'), ['Der Process', 'Das Schloss'])
      assert.deepEqual(await titles('genre=roman&author=ren%C3%A9'), [])
      assert.deepEqual(await titles('genre=rom'), [])
      assert.deepEqual(await titles("genre='%20or%201=1--"), [])
    })

    it('200 with % and _ in filters taken literally (T-API-05)', async () => {
      assert.deepEqual(await titles('author=A_B'), ['100 % wahr'])
      assert.deepEqual(await titles('genre=sach_buch'), ['100 % wahr'])
      assert.deepEqual(await titles('q=100%20%25'), ['100 % wahr'])
      assert.deepEqual(await titles('q=0%20wahr'), ['1000 wahr'])
    })

    it('200 with the books whose title contains q, ignoring case and Unicode form', async () => {
      assert.deepEqual(await titles('q=PROCESS'), ['Der Process'])
      assert.deepEqual(await titles(`q=${encodeURIComponent('CAFE\u0301')}`), ['Café', 'Cafe\u0301 II'])
      assert.deepEqual(await titles('q=kafka'), [])
    })

    it('200 with links for each book, under the version prefix of the request', async () => {
      for (const prefix of ['', '/v1']) {
        for (const book of await list('author=franz%20kafka', prefix)) {
          assert.deepEqual(book._links, linksOf(book.id, prefix, encodeURIComponent(book.author)))
        }
      }
    })

    it('200 with the requested fields of each book', async () => {
      const found = await list('author=franz%20kafka&fields=title,_links.self.href')
      assert.deepEqual(
        found.map((book) => Object.keys(book)),
        [
          ['title', '_links'],
          ['title', '_links'],
        ],
      )
    })

    it('200 sorted by genre, for any page size; books without a genre come first, or last in descending order', async () => {
      const author = 'Sorted'
      const wanted: [title: string, genre?: string][] = [['d'], ['b', 'essay'], ['c', 'Essay'], ['a', 'Novel'], ['e']]
      for (const [title, genre] of wanted) await create({ title, author, ...(genre && { genre }) })
      const walk = async (query: string) => {
        const seen: string[] = []
        let url: string | undefined = `/books?author=${author}&${query}`
        while (url !== undefined) {
          const answer = await send({ url })
          assert.equal(answer.statusCode, 200, answer.body)
          seen.push(...answer.json().map(({ title }: Book) => title))
          url = /<([^>]+)>; rel="next"/.exec(String(answer.headers.link))?.[1]
        }
        return seen.join('')
      }
      for (const limit of [1, 2, 200]) {
        assert.equal(await walk(`sort=genre&limit=${limit}`), 'debca')
        assert.equal(await walk(`sort=-genre&limit=${limit}`), 'acbed')
        assert.equal(await walk(`sort=-genre,title&limit=${limit}`), 'abcde')
      }
    })

    it('200 with the books that have no genre when the genre filter is empty', async () => {
      const author = 'Unshelved'
      const { id } = await create({ title: 'once shelved', author, genre: 'Novel' })
      await create({ title: 'never shelved', author })
      await send({ method: 'PATCH', url: `/books/${id}`, payload: { genre: null } })
      assert.deepEqual(await titles(`author=${author}&genre=`), ['once shelved', 'never shelved'])
      await send({ method: 'PATCH', url: `/books/${id}`, payload: { genre: 'Essay' } })
      assert.deepEqual(await titles(`author=${author}&genre=`), ['never shelved'])
    })

    it('400 for a repeated filter (T-API-06)', async () => {
      await is({ url: '/books?genre=a&genre=b' }, 400, 'INVALID_INPUT')
      await is({ url: '/books?author=a&author=a' }, 400, 'INVALID_INPUT')
    })

    it('400 for NUL and other control characters in a filter', async () => {
      for (const query of ['genre=%00', 'author=a%00b', 'q=%07'])
        await is({ url: `/books?${query}` }, 400, 'INVALID_INPUT')
    })
  })
})

describe('applyMergePatch', () => {
  it('follows the examples of RFC 7396 appendix A without changing its arguments', () => {
    const examples: [target: unknown, patch: unknown, result: unknown][] = [
      [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
      [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
      [{ a: 'b' }, { a: null }, {}],
      [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
      [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
      [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
      [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
      [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
      [
        ['a', 'b'],
        ['c', 'd'],
        ['c', 'd'],
      ],
      [{ a: 'b' }, ['c'], ['c']],
      [{ a: 'foo' }, null, null],
      [{ a: 'foo' }, 'bar', 'bar'],
      [{ e: null }, { a: 1 }, { e: null, a: 1 }],
      [[1, 2], { a: 'b', c: null }, { a: 'b' }],
      [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
    ]
    for (const [target, patch, result] of examples) {
      const before = structuredClone([target, patch])
      assert.deepEqual(applyMergePatch(target, patch), result)
      assert.deepEqual([target, patch], before)
    }
  })
})
