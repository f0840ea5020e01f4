import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { CompiledQuery, sql } from 'kysely'
import { builtIn } from '../../src/catalog/service.ts'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const rows = 30_000
const limit = 50
const scopes = 'users:read'

interface Seen {
  sql: string
  values: readonly unknown[]
  /** Whether the statement ran as a scan, outside the thread and the connections that serve requests. */
  isScan: boolean
}

/** Wraps a database to record the last sorted statement, its values, and whether it ran as a scan. */
function watched(db: Database) {
  const last: Seen = { sql: '', values: [], isScan: false }
  const note = (seen: Seen) => {
    if (/ order by /.test(seen.sql)) Object.assign(last, seen)
  }
  const prepare: Database['prepare'] = (query) => {
    const prepared = db.prepare(query)
    const { sql } = query.compile()
    return {
      ...prepared,
      all: (values) => {
        note({ sql, values, isScan: false })
        return prepared.all(values)
      },
    }
  }
  const scan: Database['scan'] = (query, requester) => {
    const { sql, parameters } = query.compile()
    note({ sql, values: parameters, isScan: true })
    return db.scan(query, requester)
  }
  return { db: { ...db, prepare, scan }, last }
}

interface Node {
  'Node Type': string
  'Actual Rows': number
  Plans?: Node[]
}

forEachEngine((engine) => {
  describe(`lists of ${rows} rows`, () => {
    let db: Database
    let service: TestApp
    let last: ReturnType<typeof watched>['last']
    before(async () => {
      db = await engine.database()
      await fill(db)
      const seen = watched(db)
      last = seen.last
      service = await testApp(seen.db, { prefixes: [''] })
    })
    after(async () => {
      await service.app.close()
      await db.close()
    })

    const get = async (url: string) => {
      const answer = await service.send({ url, scopes })
      assert.equal(answer.statusCode, 200, `${url} ${answer.body}`)
      const items: unknown[] = answer.json()
      const links = [...String(answer.headers.link).matchAll(/<([^>]+)>; rel="(\w+)"/g)]
      return { items, links: Object.fromEntries(links.map(([, target, rel]) => [rel, target])) }
    }
    /** Returns the plan of the last statement and, on PostgreSQL, the largest number of rows that a step returned. */
    const plan = async (): Promise<{ steps: string; met: number | undefined }> => {
      const explain = engine.name === 'sqlite' ? 'explain query plan ' : 'explain (analyze, format json) '
      const query = CompiledQuery.raw(explain + last.sql, [...last.values])
      const rows = (await db.scan({ compile: () => query }, { account: 'test' })) as Record<string, unknown>[]
      if (engine.name === 'sqlite') return { steps: rows.map(({ detail }) => detail).join('; '), met: undefined }
      const [explained] = (rows[0] as { 'QUERY PLAN': { Plan: Node }[] })['QUERY PLAN']
      const nodes = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodes)]
      const all = nodes(explained?.Plan as Node)
      return {
        steps: all.map((node) => node['Node Type']).join('; '),
        met: Math.max(...all.map((n) => n['Actual Rows'])),
      }
    }
    /** Asserts that the last statement used an index seek and read only the page's rows, without sorting. */
    const isSought = async (what: string, isWhole: boolean) => {
      assert.equal(last.isScan, false, `${what} needs no scan: ${last.sql}`)
      const { steps, met } = await plan()
      assert.doesNotMatch(steps, /TEMP B-TREE|Seq Scan/, `${what}: ${steps}\n${last.sql}`)
      // Only a list without a filter may start reading at the beginning of the table.
      if (!isWhole) assert.doesNotMatch(steps, /SCAN/, `${what}: ${steps}\n${last.sql}`)
      if (met !== undefined) assert.ok(met <= limit + 2, `${what} met ${met} rows: ${steps}\n${last.sql}`)
    }

    for (const { declaration } of builtIn.collections) {
      const { path, sorts, filters } = declaration
      const value: Record<string, string> = {
        name: 'name 7',
        email: 'user7@plinth.test',
        genre: 'genre 7',
        author: 'author 7',
      }

      it(`${path}: reads pages sorted by one field from an index, in both directions, at the start and the end`, async () => {
        for (const sort of ['', ...sorts, ...sorts.map((field) => `-${field}`)]) {
          const first = await get(`${path}?limit=${limit}&sort=${sort}`)
          assert.equal(first.items.length, limit)
          await isSought(`first page by ${sort}`, true)
          const next = await get(first.links.next as string)
          assert.equal(next.items.length, limit)
          await isSought(`second page by ${sort}`, false)
          // Sorting in the opposite order starts at the last page.
          const opposite = sort.startsWith('-') ? sort.slice(1) : `-${sort || 'id'}`
          const end = await get(`${path}?limit=${limit}&sort=${opposite}`)
          assert.equal((await get(end.links.next as string)).items.length, limit)
          await isSought(`the page before the last by ${sort}`, false)
          assert.ok((await get(next.links.prev as string)).items.length === limit)
          await isSought(`back to the first page by ${sort}`, false)
        }
      })

      it(`${path}: uses an index for every filter with the default sort`, async () => {
        for (const filter of filters) {
          const found = await get(`${path}?limit=${limit}&${filter}=${encodeURIComponent(value[filter] as string)}`)
          assert.ok(found.items.length > 0, filter)
          await isSought(filter, false)
          if (found.links.next) {
            await get(found.links.next)
            await isSought(`${filter}, second page`, false)
          }
        }
      })
    }

    for (const [url, isMany] of [
      ['/products?minPrice=2990', false],
      ['/products?minPrice=500.5&maxPrice=501', false],
      ['/products?maxPrice=0.5', false],
      ['/products?minPrice=1', true],
      ['/products?price[after]=500.5&price[to]=501', false],
      ['/products?price[from]=1', true],
      ['/users?name[prefix]=NAME%20299', false],
      ['/users?name[prefix]=name', true],
      ['/products?updatedAfter=2026-01-01T08:15:00Z', false],
      ['/books?updatedAfter=2026-01-01T08:15:00Z', false],
      ['/users?updatedAfter=2026-01-01T00:00:09Z', true],
    ] as const) {
      it(`${url}: ${isMany ? 'filters many rows while reading in order' : 'finds few rows in an index and sorts them'}`, async () => {
        const found = await get(`${url}&limit=${limit}`)
        const pages = [found, ...(found.links.next ? [await get(found.links.next)] : [])]
        assert.ok(found.items.length > 0)
        assert.equal(last.isScan, true)
        const { steps, met } = await plan()
        if (isMany) assert.doesNotMatch(steps, /sort|TEMP B-TREE/i, steps)
        else assert.match(steps, /SEARCH \w+ USING COVERING INDEX|(Bitmap )?Index (Only )?Scan/, steps)
        if (isMany) assert.equal(pages.length, 2)
        if (met !== undefined) assert.ok(met <= 2_000, `${url} met ${met} rows`)
      })
    }

    it('use an index for [in] with one or several values', async () => {
      await get(`/books?limit=${limit}&author[in]=author%207`)
      await isSought('author[in]', false)
      await get(`/books?limit=${limit}&author[in]=author%207,author%208`)
      assert.equal(last.isScan, true)
      const { steps } = await plan()
      assert.match(steps, /SEARCH books USING INDEX books_author_key|(Bitmap )?Index (Only )?Scan/, steps)
    })

    it('run as scans if no single index serves the query, such as one with several filters, a range, `or` or q', async () => {
      for (const query of [
        'genre=genre%207&author=author%207',
        'genre=genre%207&sort=title',
        'author=author%207&sort=-author',
        'author=author%207&q=title',
        'sort=author,title',
        'sort=author,-id',
        'updatedAfter=2026-01-01T00:00:09Z&sort=updatedAt',
        'genre[not]=genre%207',
        'genre[null]=false',
        'or=author:author%207,genre:genre%208',
        'or=author:author%207,genre:genre%208&q=title',
        'q=title',
        'q=7',
      ]) {
        const first = await get(`/books?limit=3&${query}`)
        assert.equal(last.isScan, true, query)
        Object.assign(last, { isScan: false })
        if (first.links.next === undefined) continue
        await get(first.links.next)
        assert.equal(last.isScan, true, `${query}, second page`)
      }
    })

    it('are read from the index of the first sort field if the sort directions differ', async () => {
      const first = await get(`/products?limit=${limit}&sort=price,-name`)
      await get(first.links.next as string)
      assert.equal(last.isScan, true)
      const { steps } = await plan()
      assert.match(steps, /SEARCH products USING INDEX products_price|Index Scan/, steps)
    })
  })
})

/** Adds `rows` rows to each table, with prices, genres and authors in an order unrelated to the ids. */
async function fill(db: Database): Promise<void> {
  const made = Array.from({ length: rows }, (_, n) => {
    const instant = new Date(Date.UTC(2026, 0, 1) + n * 1_000).toISOString()
    return { n, common: { revision: 1, createdAt: instant, updatedAt: instant }, mixed: (n * 7_919) % rows }
  })
  for (let from = 0; from < rows; from += 1_000) {
    const part = made.slice(from, from + 1_000)
    await db.write(async (tx) => {
      const products = part.map(({ common, mixed }) => ({
        name: `Name ${mixed}`,
        nameKey: `name ${mixed}`,
        price: mixed / 10,
        ...common,
      }))
      await tx.insertInto('products').values(products).execute()
      const users = part.map(({ common, mixed }) => {
        const email = `user${mixed}@plinth.test`
        return { name: `Name ${mixed}`, nameKey: `name ${mixed}`, email, emailKey: email, ...common }
      })
      await tx.insertInto('users').values(users).execute()
      const books = part.map(({ common, mixed }) => {
        const [author, genre] = [`Author ${mixed % 1_000}`, `Genre ${mixed % 100}`]
        const keys = { titleKey: `title ${mixed}`, authorKey: author.toLowerCase(), genreKey: genre.toLowerCase() }
        return { title: `Title ${mixed}`, author, genre, ...keys, ...common }
      })
      await tx.insertInto('books').values(books).execute()
    })
  }
  await sql
    .raw('analyze')
    .execute(db.read)
    .catch(() => {})
}
