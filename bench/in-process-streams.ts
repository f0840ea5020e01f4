import { responseClass } from '../src/http/server/raw-headers.ts'
import { authorization, cpuPerRequest, openInProcess, startInProcess } from './in-process-service.ts'
import { openSandbox } from './sandbox.ts'
import { insertProducts, priceOf } from './service.ts'

/**
 * Measures the CPU time of PUT with and without 1,000 open event streams in one process, without a network. The time
 * includes the commit and the events. With `--paths one`, all streams have one query that no product matches; with
 * `--paths many`, there are 100 queries that each match 1 % of the products. Alternates between both variants, and
 * prints the median of each and the median ratio of adjacent rounds.
 */
const many = process.argv[3] === 'many'
const [rounds, perRound, rows, written, names, streams] = [15, 4_000, 100_000, 2_560, 100, 1_000]
const nameOf = (id: number) => `Watched ${id % names}`
const common = ['host', 'localhost', 'x-forwarded-proto', 'https', 'authorization', authorization]
const raw = [...common, 'content-type', 'application/json']

let sent = 0
const requestAt = () => {
  const at = sent++
  const id = 1 + (((at % written) * 7_919) % rows)
  const body = Buffer.from(JSON.stringify({ name: nameOf(id), price: priceOf(at) }))
  return { method: 'PUT' as const, path: `/products/${id}`, raw: [...raw, 'content-length', String(body.length)], body }
}

const pathOf = (at: number) =>
  many ? `/products?name=${encodeURIComponent(nameOf(at % names))}` : '/products?maxPrice=50'

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number

const sandbox = openSandbox()
const start = () =>
  startInProcess({
    ...{ folder: sandbox.folder, scopes: ['products:write'] },
    fill: async (db) => insertProducts(db.url.slice('file:'.length), rows),
  })
const services = { plain: await start(), streaming: await start() }
for (let at = 0; at < streams; at++)
  await openInProcess(services.streaming.server, responseClass, {
    ...{ method: 'GET', path: pathOf(at) },
    raw: [...common, 'accept', 'text/event-stream'],
  })
const measured: { plain: number; streaming: number }[] = []
for (let round = 0; round <= rounds; round++) {
  const measure = ({ server }: typeof services.plain) =>
    cpuPerRequest(server, { count: perRound, status: 200, responseClass }, requestAt)
  // The first round only warms up.
  const pair = { plain: await measure(services.plain), streaming: await measure(services.streaming) }
  if (round > 0) measured.push(pair)
}
const [without, withStreams] = [
  median(measured.map(({ plain }) => plain)),
  median(measured.map(({ streaming }) => streaming)),
]
const ratio = median(measured.map(({ plain, streaming }) => plain / streaming))
console.log(`PUT ${without.toFixed(1)} µs, with streams ${withStreams.toFixed(1)} µs, ratio ${ratio.toFixed(3)}`)
await sandbox.clear()
process.exit(0)
