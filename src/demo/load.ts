import { type Call, jsonOf } from './api.ts'
import type { Catalogue } from './catalogue.ts'
import type { Tell } from './screen.ts'

/** How many of the catalogue's items there are, and how many of them this run added. */
export interface Loaded {
  total: number
  added: number
}

type Item = Record<string, unknown>

/** What tells an item from all others of its resource. */
const keys = { products: 'name', books: 'title', users: 'email' } as const
type Resource = keyof typeof keys

const width = 32

/** Adds over the API what is missing of the catalogue, however much an earlier run got done. */
export async function load(call: Call, catalogue: Catalogue, tell: Tell): Promise<Loaded> {
  const missing: [Resource, Item][] = []
  for (const resource of Object.keys(keys) as Resource[]) {
    tell(`looking for ${resource}`)
    const there = await keysThere(call, resource)
    const items: Item[] = catalogue[resource]
    missing.push(...items.filter((item) => !there.has(keyOf(resource, item))).map((item) => [resource, item] as never))
  }
  let added = 0
  await sideBySide(missing, async ([resource, json]) => {
    const { body } = await call('POST', `/${resource}`, { json })
    await body.resume()
    added += 1
    tell(`${added} of ${missing.length}`, added / missing.length)
  })
  return { total: Object.keys(keys).reduce((sum, resource) => sum + catalogue[resource as Resource].length, 0), added }
}

const keyOf = (resource: Resource, item: Item): string => String(item[keys[resource]]).toLowerCase()

/** The keys of all items of a resource, page by page along the Link headers. */
async function keysThere(call: Call, resource: Resource): Promise<Set<string>> {
  const found = new Set<string>()
  let next: string | undefined = `/${resource}?limit=200&fields=${keys[resource]}`
  while (next !== undefined) {
    const answer = await call('GET', next)
    for (const item of await jsonOf<Item[]>(answer)) found.add(keyOf(resource, item))
    next = /<([^>]*)>; rel="next"/.exec(String(answer.headers.link))?.[1]
  }
  return found
}

/** Works on all items, a bounded number of them at a time; the first failure rejects. */
async function sideBySide<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const waiting = items.values()
  const hand = async () => {
    for (const item of waiting) await work(item)
  }
  await Promise.all(Array.from({ length: width }, hand))
}
