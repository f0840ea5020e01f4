import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

interface Product {
  id: number
  name: string
  price: number
  createdAt: string
  updatedAt: string
}

forEachEngine((engine) => {
  const service = appOn(engine)
  beforeEach(() => service.db.write((tx) => tx.deleteFrom('products').execute()))

  const get = (url: string, headers: Record<string, string> = {}) => service.send({ url, scopes: null, headers })
  const ok = async (url: string, headers: Record<string, string> = {}) => {
    const answer = await get(url, headers)
    assert.equal(answer.statusCode, 200, `${url} ${answer.body}`)
    return answer
  }
  const add = async (name: string, price: number) => {
    const answer = await service.send({ method: 'POST', url: '/products', payload: { name, price } })
    assert.equal(answer.statusCode, 201, answer.body)
    return answer.json() as Product
  }
  const fill = async (count: number, priceOf = (at: number) => at) => {
    const made: Product[] = []
    for (let at = 0; at < count; at++) made.push(await add(`P${String(at).padStart(3, '0')}`, priceOf(at)))
    return made
  }
  const remove = (id: number) => service.send({ method: 'DELETE', url: `/products/${id}` })
  const list = async (query: string) => (await ok(`/products?${query}`)).json() as Product[]
  const names = async (query: string) => (await list(query)).map(({ name }) => name)
  const refused = async (query: string, field: string) => {
    const answer = await get(`/products?${query}`)
    assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], `${query} ${answer.body}`)
    assert.equal(answer.json().errors[0].field, field)
  }

  interface Page {
    items: Product[]
    links: Record<string, string>
  }
  const page = async (url: string): Promise<Page> => {
    const answer = await ok(url)
    const links = [...String(answer.headers.link).matchAll(/<([^>]+)>; rel="(\w+)"/g)]
    return { items: answer.json(), links: Object.fromEntries(links.map(([, target, rel]) => [rel, target])) }
  }
  /** Returns all items from this page onward. Calls `between` after each page. */
  const walk = async (
    start: string,
    rel: 'next' | 'prev',
    between: (page: Page) => Promise<unknown> = async () => {},
  ) => {
    const seen: Product[] = []
    for (let url: string | undefined = start; url !== undefined; ) {
      const current: Page = await page(url)
      rel === 'next' ? seen.push(...current.items) : seen.unshift(...current.items)
      await between(current)
      url = current.links[rel]
    }
    return seen
  }
  const ids = (items: Product[]) => items.map(({ id }) => id)
  const cursorOf = (url: string | undefined) =>
    new URL(url as string, 'https://plinth.test').searchParams.get('cursor') as string

  describe('limit', () => {
    it('200 with 50 items by default, and at most 200 whatever the limit', async () => {
      const rows = Array.from({ length: 205 }, (_, at) => ({
        name: `P${at}`,
        nameKey: `p${at}`,
        price: at,
        revision: 1,
        createdAt: '2026-01-01T00:00:00.000Z',
        updatedAt: '2026-01-01T00:00:00.000Z',
      }))
      await service.db.write((tx) => tx.insertInto('products').values(rows).execute())
      const counts = []
      for (const query of [
        '',
        'limit=1',
        'limit=50',
        'limit=200',
        'limit=201',
        'limit=99999999999999999',
        `limit=${'9'.repeat(999)}`,
      ]) {
        counts.push((await list(query)).length)
      }
      assert.deepEqual(counts, [50, 1, 50, 200, 200, 200, 200])
      for (const limit of ['201', '9'.repeat(30)]) {
        assert.equal((await walk(`/products?limit=${limit}`, 'next')).length, 205)
      }
    })

    it('400 for anything but a positive integer', async () => {
      for (const limit of ['0', '-1', 'x', '1.5', '1e2', '', '+5', '05']) {
        await refused(`limit=${encodeURIComponent(limit)}`, 'limit')
      }
      await refused('limit=1&limit=2', 'limit')
    })
  })

  describe('a page', () => {
    it('200 with [] and only a `first` link for an empty list', async () => {
      assert.deepEqual(await page('/products'), { items: [], links: { first: '/products' } })
      assert.deepEqual(await page('/products?limit=5'), { items: [], links: { first: '/products?limit=5' } })
    })

    it('200 with a `next` link only if more rows follow', async () => {
      await fill(4)
      assert.deepEqual(Object.keys((await page('/products?limit=3')).links), ['first', 'next'])
      assert.deepEqual(Object.keys((await page('/products?limit=4')).links), ['first'])
    })

    it('200 with links that preserve prefix, filter, sort and fields', async () => {
      await fill(5)
      for (const prefix of ['', '/v1']) {
        const query = 'limit=2&sort=-price&minPrice=1&fields=id'
        const first = await page(`${prefix}/products?${query}`)
        assert.equal(first.links.first, `${prefix}/products?${query}`)
        assert.equal(first.links.next?.replace(/&cursor=[^&]+/, ''), `${prefix}/products?${query}`)
        const second = await page(first.links.next as string)
        assert.deepEqual(
          [...first.items, ...second.items].map((item) => Object.keys(item)),
          Array(4).fill(['id']),
        )
      }
    })

    it('200 with a weak tag, 304 while the page is unchanged', async () => {
      const [first] = await fill(3)
      const etag = String((await ok('/products?limit=2')).headers.etag)
      assert.match(etag, /^W\/"/)
      assert.equal((await get('/products?limit=2', { 'if-none-match': etag })).statusCode, 304)
      await service.send({ method: 'PATCH', url: `/products/${first?.id}`, payload: { price: 77 } })
      assert.equal((await get('/products?limit=2', { 'if-none-match': etag })).statusCode, 200)
    })
  })

  describe('a cached page', () => {
    const price = (id: number, to: number) =>
      service.send({ method: 'PATCH', url: `/products/${id}`, payload: { price: to } })

    it('200 with the current rows after rows on the page or just after it are changed, deleted or added', async () => {
      const all = await fill(4)
      const [first, second, third, fourth] = ids(all) as [number, number, number, number]
      for (const url of ['/products?limit=3', '/products?limit=3&sort=price', '/products?limit=3&fields=id,price']) {
        const seen = async () => {
          const { items, links } = await page(url)
          return [items.map(({ id, price }) => [id, price]), Object.keys(links)]
        }
        const whole = [
          [
            [first, 0],
            [second, 1],
            [third, 2],
          ],
          ['first', 'next'],
        ]
        assert.deepEqual(await seen(), whole)
        assert.deepEqual(await seen(), whole)
        await price(second, 1.5)
        assert.deepEqual(await seen(), [
          [
            [first, 0],
            [second, 1.5],
            [third, 2],
          ],
          ['first', 'next'],
        ])
        await price(second, 1)
        assert.deepEqual(await seen(), whole)
      }
      await remove(fourth)
      const { links } = await page('/products?limit=3')
      assert.equal(links.next, undefined)
      await remove(first)
      assert.deepEqual(ids((await page('/products?limit=3')).items), [second, third])
      const added = await add('P', 9)
      assert.deepEqual(ids((await page('/products?limit=3')).items), [second, third, added.id])
      await add('P', 9)
      assert.ok((await page('/products?limit=3')).links.next)
    })

    it('200 with the current values of a row that was changed directly in the database', async () => {
      const [only] = await fill(1)
      await page('/products')
      await service.db.write((tx) =>
        tx
          .updateTable('products')
          .set({ name: 'Elsewhere', revision: 2 })
          .where('id', '=', only?.id as never)
          .execute(),
      )
      assert.deepEqual(await names(''), ['Elsewhere'])
    })
  })

  describe('paging', () => {
    it('returns every row once, forwards and backwards, for every page size', async () => {
      const all = ids(await fill(9, (at) => at % 3))
      for (const limit of [1, 2, 3, 4, 8, 9, 10]) {
        const start = `/products?limit=${limit}`
        assert.deepEqual(ids(await walk(start, 'next')), all, `limit ${limit}`)
        let last = await page(start)
        while (last.links.next) last = await page(last.links.next)
        const backwards = last.links.prev ? await walk(last.links.prev, 'prev') : []
        assert.deepEqual([...ids(backwards), ...ids(last.items)], all, `limit ${limit}`)
      }
    })

    it('returns the same pages via `prev` and then `next`', async () => {
      await fill(7)
      const first = await page('/products?limit=3')
      const second = await page(first.links.next as string)
      const back = await page(second.links.prev as string)
      assert.deepEqual(ids(back.items), ids(first.items))
      assert.equal(back.links.prev, undefined)
      assert.deepEqual(ids((await page(back.links.next as string)).items), ids(second.items))
    })

    for (const sort of ['', 'price', '-price', 'price,-name', '-price,name', '-id', '-updatedAt,-price']) {
      it(`neither skips nor repeats rows during concurrent writes, sorted by "${sort}"`, async () => {
        const all = await fill(20, (at) => at % 4)
        const kept = all.filter((_, at) => at % 5 !== 3)
        const doomed = all.filter((_, at) => at % 5 === 3)
        let turn = 0
        const disturb = async ({ items }: Page) => {
          if (turn++ > 6) return
          await add(`P${String(turn).padStart(3, '0')}x`, turn % 5)
          await add('A', 0)
          await add('Z', 9)
          const gone = doomed.pop()
          if (gone) await remove(gone.id)
          // The cursor of the `next` link points to this row.
          const last = items.at(-1)
          if (last && !ids(kept).includes(last.id)) await remove(last.id)
        }
        const seen = await walk(`/products?limit=3&sort=${sort}`, 'next', disturb)
        const met = ids(seen)
        assert.equal(new Set(met).size, met.length)
        assert.deepEqual(
          ids(kept).filter((id) => !met.includes(id)),
          [],
        )
      })
    }

    it('continues after a cursor whose row was deleted, in both directions', async () => {
      const all = await fill(6)
      const first = await page('/products?limit=2')
      await remove(all[1]?.id as number)
      const second = await page(first.links.next as string)
      assert.deepEqual(ids(second.items), [all[2]?.id, all[3]?.id])
      await remove(all[2]?.id as number)
      assert.deepEqual(ids((await page(second.links.prev as string)).items), [all[0]?.id])
    })
  })

  describe('sort', () => {
    const shelf: [name: string, price: number][] = [
      ['b', 2],
      ['A', 2],
      ['c', 1],
      ['B', 3],
      ['ä', 1],
      ['a', 1],
    ]
    const orders: [sort: string, expected: string][] = [
      ['', 'bAcBäa'],
      ['id', 'bAcBäa'],
      ['-id', 'aäBcAb'],
      ['name', 'AabBcä'],
      ['-name', 'äcBbaA'],
      ['price', 'cäabAB'],
      ['-price', 'BAbaäc'],
      ['price,name', 'acäAbB'],
      ['price,-name', 'äcabAB'],
      ['-price,name', 'BAbacä'],
      ['-price,-name', 'BbAäca'],
      ['price,-id', 'aäcAbB'],
      ['name,-price', 'AaBbcä'],
      ['name,-id', 'aABbcä'],
      ['-price,%20name', 'BAbacä'],
      ['-id,name', 'aäBcAb'],
      ['createdAt,price,name', 'acäAbB'],
    ]
    for (const [sort, expected] of orders) {
      it(`200 in the order ${expected} for sort=${sort}, on pages of any size`, async () => {
        for (const [name, price] of shelf) await add(name, price)
        assert.equal((await names(`sort=${sort}`)).join(''), expected)
        for (const limit of [1, 4]) {
          const seen = await walk(`/products?limit=${limit}&sort=${sort}`, 'next')
          assert.equal(seen.map(({ name }) => name).join(''), expected)
        }
      })
    }

    it('200 with prices in numeric order', async () => {
      for (const price of [10, 9, 0.1, 100.25, 2]) await add('P', price)
      const seen = await walk('/products?limit=1&sort=price', 'next')
      assert.deepEqual(
        seen.map(({ price }) => price),
        [0.1, 2, 9, 10, 100.25],
      )
    })

    it('200 for more sort orders than fit in the statement cache', async () => {
      const all = ids(await fill(3)).sort()
      const fields = ['name', 'price', 'createdAt', 'updatedAt']
      const pairs = fields.flatMap((one) => fields.filter((other) => other !== one).map((other) => [one, other]))
      const signs = [
        ['', ''],
        ['-', ''],
        ['', '-'],
        ['-', '-'],
      ] as const
      const sorts = pairs.flatMap((pair) =>
        signs.flatMap((sign) => ['', ',id', ',-id'].map((end) => `${sign[0]}${pair[0]},${sign[1]}${pair[1]}${end}`)),
      )
      assert.ok(sorts.length > 120)
      for (const sort of sorts) assert.deepEqual(ids(await list(`sort=${sort}&minPrice=0`)).sort(), all, sort)
    })

    it('400 for an unknown field, a hidden column, a repeated field or a malformed value', async () => {
      for (const sort of [
        'nothing',
        'nameKey',
        'revision',
        'name,nothing',
        '--name',
        'name,name',
        'name,-name',
        ',',
        'name,',
        '-',
        'NAME',
        'name desc',
        '__proto__',
        "id'",
      ]) {
        await refused(`sort=${encodeURIComponent(sort)}`, 'sort')
      }
      await refused('sort=name&sort=price', 'sort')
    })
  })

  describe('filters', () => {
    it('200 with prices between minPrice and maxPrice, both inclusive', async () => {
      for (const price of [1, 2.5, 3, 10.01]) await add(`P${price}`, price)
      assert.deepEqual(await names('minPrice=2.5'), ['P2.5', 'P3', 'P10.01'])
      assert.deepEqual(await names('maxPrice=3'), ['P1', 'P2.5', 'P3'])
      assert.deepEqual(await names('minPrice=2.5&maxPrice=3.00'), ['P2.5', 'P3'])
      assert.deepEqual(await names('minPrice=11'), [])
      assert.deepEqual(await names('minPrice=-5&maxPrice=999999999.99'), ['P1', 'P2.5', 'P3', 'P10.01'])
    })

    it('400 for a bound that is not a JSON number', async () => {
      for (const bound of ['x', '1e999', '', '0x1', 'NaN', 'Infinity', '1,5', '--1', '1.']) {
        await refused(`minPrice=${encodeURIComponent(bound)}`, 'minPrice')
      }
      await refused('maxPrice=1&maxPrice=2', 'maxPrice')
    })

    it('200 with the rows that match name or q, ignoring case and Unicode form', async () => {
      for (const name of ['Füller', 'FU\u0308LLER', 'Bleistift', 'Füllerhalter', '50%']) await add(name, 1)
      assert.deepEqual(await names('name=f%C3%BCller'), ['Füller', 'FU\u0308LLER'])
      assert.deepEqual(await names('q=%C3%BCll'), ['Füller', 'FU\u0308LLER', 'Füllerhalter'])
      assert.deepEqual(await names('q=%25'), ['50%'])
      assert.deepEqual(await names('q=_'), [])
      assert.deepEqual(await names('q=!'), [])
      assert.equal((await names('q=')).length, 5)
    })

    it('200 with only the rows changed after `updatedAfter`', async () => {
      const [first] = await fill(3)
      const start = new Date(service.clock.now).toISOString()
      service.clock.now += 1
      await service.send({ method: 'PATCH', url: `/products/${first?.id}`, payload: { price: 5 } })
      assert.deepEqual(await names(`updatedAfter=${start}`), ['P000'])
      assert.deepEqual(await names(`updatedAfter=${new Date(service.clock.now).toISOString()}`), [])
      assert.equal((await names('updatedAfter=2001-01-01T00:00:00%2B02:00')).length, 3)
    })

    it('400 for an updatedAfter that is not an instant', async () => {
      const none = ['2026-13-01T00:00:00Z', '2026-02-30', '2026-02-29T00:00:00Z', '2026-01-01T24:00:00Z']
      const beyond = ['0000-01-01T00:00:00+01:00', '9999-12-31T23:59:59-01:00']
      for (const text of ['yesterday', '', '7', '1767225600000', ...none, ...beyond]) {
        await refused(`updatedAfter=${encodeURIComponent(text)}`, 'updatedAfter')
      }
    })

    it('200 for unknown parameters, which are ignored', async () => {
      await fill(1)
      for (const query of ['unknown=1', 'nameKey=x', 'revision=9', 'price=7', 'id=9', '__proto__=1', 'constructor=1']) {
        assert.equal((await list(query)).length, 1, query)
      }
    })
  })

  describe('the cursor', () => {
    it('400 when altered, malformed, repeated, or from another list', async () => {
      await fill(5)
      const cursor = cursorOf((await page('/products?limit=2')).links.next)
      assert.equal((await list(`limit=2&cursor=${cursor}`)).length, 2)
      const elsewhere = await get(`/books?limit=2&cursor=${cursor}`)
      assert.deepEqual([elsewhere.statusCode, elsewhere.json().errors[0].field], [400, 'cursor'])
      for (const other of ['sort=-id', 'minPrice=1', 'q=P'])
        await refused(`limit=2&${other}&cursor=${cursor}`, 'cursor')
      const [mark, direction, id] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
      const forged = [['abc'], [1.5], [1e300], [-1e20], ['1'], [null], [[id]], ['a\u0000'], [], [id, id], [true]]
      const made = forged.map((values) =>
        Buffer.from(JSON.stringify([mark, direction, ...values])).toString('base64url'),
      )
      for (const text of ['x', '%00', cursor.slice(1), cursor.slice(0, -4), `${cursor}AAAA`, ...made]) {
        await refused(`limit=2&cursor=${text}`, 'cursor')
      }
      await refused(`limit=2&cursor=${cursor}&cursor=${cursor}`, 'cursor')
    })

    it('400 when its values have the wrong type for the sort', async () => {
      await fill(3)
      for (const [sort, wrong] of [
        ['price', 'abc'],
        ['name', 7],
        ['-updatedAt', 7],
        ['price', 'P\u0000'],
      ] as const) {
        const cursor = cursorOf((await page(`/products?limit=1&sort=${sort}`)).links.next)
        const [mark, direction, , id] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
        const forged = Buffer.from(JSON.stringify([mark, direction, wrong, id])).toString('base64url')
        await refused(`limit=1&sort=${sort}&cursor=${forged}`, 'cursor')
      }
    })

    it('400 when used with another filter or sort, 200 with another limit or other fields', async () => {
      await fill(5)
      const cursor = cursorOf((await page('/products?limit=2&sort=price')).links.next)
      for (const query of [
        '',
        'sort=-price',
        'sort=name',
        'sort=price&minPrice=1',
        'sort=price&q=P',
        'sort=price,name',
      ]) {
        await refused(`${query}&cursor=${cursor}`, 'cursor')
      }
      assert.deepEqual(await names(`sort=price&limit=1&fields=name&cursor=${cursor}`), ['P002'])
    })

    it('200 with the first page for an empty cursor', async () => {
      await fill(2)
      assert.deepEqual(await names('cursor='), ['P000', 'P001'])
    })
  })

  describe('Prefer: count=exact (RFC 7240)', () => {
    const count = async (url: string, prefer: string, scopes: string | null = '') => {
      const answer = await service.send({ url, scopes, headers: { prefer } })
      assert.equal(answer.statusCode, 200, answer.body)
      return [answer.headers['x-total-count'], answer.headers['preference-applied']]
    }

    it('200 with the number of all matching rows, for any page size', async () => {
      await fill(7)
      assert.deepEqual(await count('/products?limit=2', 'count=exact'), ['7', 'count=exact'])
      assert.deepEqual(await count('/products?minPrice=5', 'wait=1, count=exact'), ['2', 'count=exact'])
      assert.deepEqual(await count('/products?q=nothing', 'count=exact; x=1'), ['0', 'count=exact'])
      assert.deepEqual(await count('/products', 'return=minimal'), [undefined, undefined])
      assert.deepEqual(await count('/products', 'count=estimated'), [undefined, undefined])
    })

    it('200 without a count for callers without a token, even with handling=strict', async () => {
      await fill(2)
      assert.deepEqual(await count('/products?limit=1', 'count=exact', null), [undefined, undefined])
      const strict = await count('/products?limit=1', 'count=exact, handling=strict', null)
      assert.deepEqual(strict, [undefined, 'handling=strict'])
    })
  })
})
