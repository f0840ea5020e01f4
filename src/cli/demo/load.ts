import type { Call } from './api.ts'
import type { Catalogue } from './catalogue.ts'
import type { ShowProgress } from './screen.ts'

type Item = Record<string, unknown>

const concurrency = 32

/** Creates every catalogue item through the API; returns the number of items. */
export async function load(call: Call, catalogue: Catalogue, showProgress: ShowProgress): Promise<number> {
  const items = Object.entries<Item[]>({ ...catalogue }).flatMap(([resource, list]) =>
    list.map((item) => [resource, item] as const),
  )
  let added = 0
  await forEachConcurrently(items, async ([resource, json]) => {
    const { body } = await call('POST', `/${resource}`, { json })
    await body.resume()
    added += 1
    showProgress(`${added} of ${items.length}`, added / items.length)
  })
  return items.length
}

/** Processes all items with bounded concurrency; rejects on the first failure. */
async function forEachConcurrently<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const waiting = items.values()
  const worker = async () => {
    for (const item of waiting) await work(item)
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
}
