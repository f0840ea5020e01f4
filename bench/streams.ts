import { resolve } from 'node:path'
import { withoutLimits } from '../test/support/limits.ts'
import type { Bench, Measurement } from './bench.ts'
import { loadCore, pinned } from './cpu-and-memory.ts'
import { proxied, requestText } from './http.ts'
import { measure, type RequestRow } from './requests.ts'
import { environment, startReady } from './sandbox.ts'
import { countRevisions, priceOf, type Service, startService } from './service.ts'
import type { ReadersOrder } from './stream-readers.ts'

const streams = 1_000
/** Number of different names among the written products. Writes do not change a product's name. */
const names = 100
const written = 2_560

const nameOf = (id: number) => `Watched ${id % names}`

/** Returns requests that replace products from the whole table. */
function replacements(headers: Record<string, string>, rows: number): string[] {
  const json = { ...headers, 'content-type': 'application/json' }
  return Array.from({ length: written }, (_, at) => {
    const id = 1 + ((at * 7_919) % rows)
    return requestText('PUT', `/products/${id}`, json, JSON.stringify({ name: nameOf(id), price: priceOf(at) }))
  })
}

/** The paths of the streams. All prices are above 100, so no written product matches the first path. */
const measured = [
  { name: 'streams', title: 'PUT, 1,000 streams of one query', paths: ['/products?maxPrice=50'] },
  {
    name: 'streams-matching',
    title: 'PUT, 1 % of 1,000 streams match',
    paths: Array.from({ length: names }, (_, at) => `/products?name=${encodeURIComponent(nameOf(at))}`),
  },
]

/** Compares PUT while streams of the same collection are open to PUT without streams. */
export const streamRows: Measurement[] = measured.map(({ name, title, paths }) => ({
  name,
  measure: async (bench) => {
    const limits = { ...withoutLimits, PLINTH_MAX_STREAMS: String(streams) }
    const start = (folder: string) =>
      startService(bench.sandbox, bench.options, bench.pin, { name: `${name}-${folder}`, limits })
    const [plain, streaming] = [await start('reference'), await start('streaming')]
    const readers = await openStreams(bench, streaming, paths)
    const row: RequestRow = {
      ...{ name, title, floor: 0.9, status: 200, referenceStatus: 200, requests: replacements },
      writes: { count: countRevisions, share: 1 },
    }
    const reference = { ...plain, name: 'reference' as const }
    const result = await measure({ ...bench, reference, service: streaming }, row, 'without streams')
    if (readers.exitCode !== null) throw new Error('The event streams ended during the measurement')
    await bench.sandbox.stop(readers)
    await Promise.all([plain.stop(), streaming.stop()])
    return result
  },
}))

async function openStreams({ sandbox, options, pin }: Bench, service: Service, paths: string[]) {
  const headers = { ...proxied(options.tls), authorization: `Bearer ${await service.token()}` }
  const order: ReadersOrder = { port: service.port, tls: options.tls, headers, count: streams, paths }
  const command = pinned(pin, loadCore, [process.execPath, resolve(import.meta.dirname, 'stream-readers.ts')])
  return startReady(sandbox, command, environment({ READERS: JSON.stringify(order) }))
}
