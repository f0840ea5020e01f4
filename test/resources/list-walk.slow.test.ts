import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

interface Product {
  id: number
  name: string
  price: number
}
type Sort = { field: 'id' | 'name' | 'price'; descending: boolean }

const names = ['a', 'B', 'b', 'c', 'D']
const prices = [0, 1, 2.5]
const at = '2026-01-01T00:00:00.000Z'

const row = fc.record({ name: fc.constantFrom(...names), price: fc.constantFrom(...prices) })
const sort = fc.uniqueArray(fc.record({ field: fc.constantFrom('id', 'name', 'price'), descending: fc.boolean() }), {
  selector: ({ field }) => field,
  maxLength: 3,
}) as fc.Arbitrary<Sort[]>
/** A row that another client adds or deletes between two page requests. */
const disturbance = fc.oneof(
  row.map((added) => ({ add: added })),
  fc.nat(40).map((place) => ({ remove: place })),
)
const walk = fc.record({
  rows: fc.array(row, { minLength: 1, maxLength: 25 }),
  sort,
  limit: fc.integer({ min: 1, max: 6 }),
  filter: fc.constantFrom('', '&minPrice=1', '&maxPrice=1&minPrice=0.5', '&name=b', '&q=b', '&minPrice=1&name=B'),
  disturbances: fc.array(fc.array(disturbance, { maxLength: 3 }), { maxLength: 12 }),
})

const passes = (filter: string) => (product: Product) => {
  const query = new URLSearchParams(filter)
  const name = query.get('name') ?? query.get('q')
  return (
    product.price >= Number(query.get('minPrice') ?? 0) &&
    product.price <= Number(query.get('maxPrice') ?? 100) &&
    (name === null || product.name.toLowerCase() === name.toLowerCase())
  )
}

/** Returns a comparator for the requested order; ties are broken by id, in the direction of the last field. */
function compare(order: Sort[]) {
  const all: Sort[] = [...order, { field: 'id', descending: order.at(-1)?.descending ?? false }]
  const key = (product: Product, { field }: Sort) => (field === 'name' ? product.name.toLowerCase() : product[field])
  return (one: Product, other: Product): number => {
    for (const step of all) {
      const [left, right] = [key(one, step), key(other, step)]
      if (left !== right) return left < right === step.descending ? 1 : -1
    }
    return 0
  }
}

forEachEngine((engine) => {
  describe('paging through a list while others write', () => {
    const service = appOn(engine, { prefixes: [''] })
    let present: Product[]

    const add = async (added: Omit<Product, 'id'>) => {
      const cells = { ...added, nameKey: added.name.toLowerCase(), revision: 1, createdAt: at, updatedAt: at }
      const made = service.db.write((tx) => tx.insertInto('products').values(cells).returning('id').executeTakeFirst())
      present.push({ ...added, id: (await made)?.id as number })
    }
    const remove = async (place: number) => {
      const [gone] = present.splice(place % Math.max(present.length, 1), 1)
      if (gone) await service.db.write((tx) => tx.deleteFrom('products').where('id', '=', gone.id).execute())
    }
    const page = async (url: string) => {
      const answer = await service.send({ url })
      assert.equal(answer.statusCode, 200, `${url} ${answer.body}`)
      const links = [...String(answer.headers.link).matchAll(/<([^>]+)>; rel="(\w+)"/g)]
      const targets = Object.fromEntries(links.map(([, target, rel]) => [rel, target]))
      return { items: answer.json() as Product[], next: targets.next, prev: targets.prev }
    }

    it('returns every remaining row once and in order, forwards and backwards, for any order and filter', async () => {
      await fc.assert(
        fc.asyncProperty(walk, async ({ rows, sort, limit, filter, disturbances }) => {
          await service.db.write((tx) => tx.deleteFrom('products').execute())
          present = []
          for (const one of rows) await add(one)
          const list = sort.map(({ field, descending }) => (descending ? `-${field}` : field)).join()
          const pending = [...disturbances]
          const start = `/products?limit=${limit}&sort=${list}${filter}`
          let last = start
          for (const direction of ['next', 'prev'] as const) {
            const stayed = new Set(present.map(({ id }) => id))
            const seen: Product[] = []
            for (let url: string | undefined = last; url !== undefined; ) {
              last = url
              const current: Awaited<ReturnType<typeof page>> = await page(url)
              assert.ok(current.items.length <= limit)
              direction === 'next' ? seen.push(...current.items) : seen.unshift(...current.items)
              for (const doing of pending.shift() ?? []) {
                'add' in doing ? await add(doing.add) : await remove(doing.remove)
                for (const id of stayed) if (!present.some((product) => product.id === id)) stayed.delete(id)
              }
              url = current[direction]
            }
            assert.deepEqual(seen, seen.toSorted(compare(sort)))
            assert.equal(new Set(seen.map(({ id }) => id)).size, seen.length)
            const owed = present.filter(({ id }) => stayed.has(id)).filter(passes(filter))
            // A backward walk starts at the last page, so it must return every row up to the end of that page.
            const met = new Set(seen.map(({ id }) => id))
            const end = seen.at(-1)
            const isOwed = (product: Product) =>
              direction === 'next' || (end !== undefined && compare(sort)(product, end) <= 0)
            assert.deepEqual(
              owed.filter((product) => isOwed(product) && !met.has(product.id)),
              [],
            )
            assert.deepEqual(
              seen.filter((product) => !passes(filter)(product)),
              [],
            )
          }
        }),
        { numRuns: 60 },
      )
    })
  })
})
