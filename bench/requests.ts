import type { Bench, Measurement } from './bench.ts'
import { drive } from './drive.ts'
import { countProducts, countRevisions, nameOf, priceOf } from './fill.ts'
import type { LoadResult } from './load-order.ts'
import { withRatio } from './measured.ts'
import { forgetPeak, memoryOf } from './memory.ts'
import { quietest } from './quietest.ts'
import { known, randomReads, randomReadsAndWrites, writeEach } from './random-requests.ts'
import { generous, startService } from './service.ts'
import { answerOf, proxied, requestText, type Target } from './target.ts'

/** A row that counts requests per second. */
export interface RequestRow {
  name: string
  title: string
  floor: number
  /** The status the service answers with; the reference answers with `plain`. */
  status: number
  plain: number
  /** The requests to send in turn; `headers` are those that all rows have. */
  requests: (headers: Headers, rows: number, service: Target) => string[] | Promise<string[]>
  /** What the database file must have more of afterwards, and the share of the requests that each add one. */
  writes?: { count: (databaseFile: string) => number; share: number }
}

type Headers = Record<string, string>

/** More than one row and one body, so that nothing can be answered from a cache of one. */
const differing = 256

const reads = (headers: Headers, rows: number) =>
  Array.from({ length: differing }, (_, at) => requestText('GET', `/products/${spread(at, rows)}`, headers))

/** Ids from all over the table, of one length where there are many. */
const spread = (at: number, rows: number) => Math.max(1, Math.floor((rows * (at + 26)) / (differing + 26)))

/** Pages from all over the list: each is found by the link of the page before it. */
async function pages(headers: Headers, _rows: number, service: Target): Promise<string[]> {
  const paths = ['/products?limit=50']
  while (paths.length < differing) {
    const answer = await answerOf(service, 200, { method: 'GET', path: paths.at(-1) as string, headers })
    const next = /<([^>]+)>; rel="next"/.exec(String(answer.headers.link))?.[1]
    if (next === undefined) break
    paths.push(next)
  }
  return paths.map((path) => requestText('GET', path, headers))
}

export const rows: RequestRow[] = [
  { name: 'get', title: 'GET /products/{id}', floor: 0.5, status: 200, plain: 200, requests: reads },
  {
    name: 'not-modified',
    title: 'GET /products/{id} → 304',
    floor: 0.6,
    status: 304,
    plain: 200,
    requests: (headers, count) => reads({ ...headers, 'if-none-match': '"1"' }, count),
  },
  { name: 'list', title: 'GET /products?limit=50', floor: 0.4, status: 200, plain: 200, requests: pages },
  {
    name: 'create',
    title: 'POST /products, durable',
    floor: 0.25,
    status: 201,
    plain: 201,
    requests: (headers) =>
      Array.from({ length: differing }, (_, at) => {
        const body = JSON.stringify({ name: nameOf(2_000_000 + at), price: priceOf(at) })
        return requestText('POST', '/products', { ...headers, 'content-type': 'application/json' }, body)
      }),
    writes: { count: countProducts, share: 1 },
  },
  {
    name: 'get-random',
    title: `GET /products/{id}, random of ${known.toLocaleString('en')}`,
    floor: 0.4,
    status: 200,
    plain: 200,
    requests: randomReads,
  },
  {
    name: 'mixed',
    title: '95 % GET, 5 % PUT durable, random',
    floor: 0.1,
    status: 200,
    plain: 200,
    requests: randomReadsAndWrites,
    writes: { count: countRevisions, share: 1 / writeEach },
  },
]

export const requestRows: Measurement[] = rows.map((row) => ({
  name: row.name,
  measure: (bench) => measure(bench, row),
}))

/** The reads again where every call is counted and each answer tells where the client stands. */
export const countedRows: Measurement[] = rows.slice(0, 2).map((row, at) => {
  const counted = { name: `${row.name}-counted`, title: `${row.title}, with limits`, floor: [0.6, 0.7][at] as number }
  return {
    name: counted.name,
    measure: async (bench) => {
      const special = { name: counted.name, limits: generous }
      const service = await startService(bench.place, bench.options, bench.pin, special)
      const measured = await measure({ ...bench, service }, { ...row, ...counted })
      await service.stop()
      return measured
    },
  }
})

async function measure(bench: Bench, row: RequestRow) {
  const { service, reference } = bench
  const stored = row.writes?.count(service.databaseFile) ?? 0
  const answered: number[] = []
  const run = async (target: Target, seconds: number) => {
    const result = await runOnce(bench, row, target, seconds)
    if (target === service) answered.push(result.answered)
    return result
  }
  forgetPeak(service.pid)
  const rounds = await inTurns(bench, row.title, { reference, service }, run)
  expectStored(bench, row, stored, answered)
  service.trimLog()
  const { name, title, floor } = row
  const about = { name, title, floor, unit: 'requests' as const, reference: 'bare Fastify' }
  return withRatio({ ...about, rounds, memory: memoryOf(service.pid) })
}

/** Both sides in turn, as often as the options say, after each was warmed up. */
export async function inTurns(
  { options, say }: Bench,
  title: string,
  { reference, service }: Record<'reference' | 'service', Target>,
  run: (target: Target, seconds: number) => Promise<LoadResult>,
) {
  say(`${title}: warming up`)
  for (const target of [reference, service]) await run(target, Math.min(2, options.seconds))
  const rounds = []
  for (let round = 1; round <= options.rounds; round++) {
    const undisturbed = (target: Target) =>
      quietest(async () => {
        const result = await run(target, options.seconds)
        say(`  ${round} ${target.name.padEnd(9)} ${sideLine(result)}`)
        return { ...result }
      })
    rounds.push({ reference: await undisturbed(reference), service: await undisturbed(service) })
  }
  return rounds
}

type Place = Pick<Bench, 'options' | 'place' | 'pin' | 'service'>

/** Sends the requests of a row to a target for so many seconds, with a token of the service. */
export async function runOnce(
  { options, place, pin, service }: Place,
  row: RequestRow,
  target: Target,
  seconds: number,
) {
  const headers = { ...proxied(options.tls), authorization: `Bearer ${await service.token()}` }
  const order = {
    port: target.port,
    tls: target.tls,
    requests: await row.requests(headers, options.rows, service),
    connections: options.connections,
    warmSeconds: 0.5,
    seconds,
    serverPid: target.pid,
  }
  return drive(place, pin, order, target === service ? row.status : row.plain)
}

const percent = (share: number) => `${Math.round(share * 100)} %`.padStart(5)

const sideLine = (result: LoadResult) =>
  [
    `${Math.round(result.perSecond).toLocaleString('en').padStart(8)}/s`,
    `p50 ${result.p50Ms.toFixed(2)} p99 ${result.p99Ms.toFixed(2)} ms`,
    `server ${percent(result.serverShare)} (${result.serverUs.toFixed(1)} µs each, others ${percent(result.othersShare)})`,
    `load ${percent(result.loadShare)} (others ${percent(result.othersLoadShare)})`,
  ].join('   ')

/** Every write that was answered must be in the file; requests under way at the end of a run may be there, too. */
function expectStored({ service, options }: Bench, { writes }: RequestRow, before: number, answered: number[]): void {
  if (writes === undefined) return
  const added = writes.count(service.databaseFile) - before
  const writesOf = (count: number) => Math.floor(count * writes.share)
  const least = answered.reduce((sum, count) => sum + writesOf(count), 0)
  const underWay = options.connections * answered.length
  // Where reads overtake writes, those that were sent are not those that were answered.
  const missing = writes.share < 1 ? underWay : 0
  if (added >= least - missing && added <= least + underWay) return
  throw new Error(`${least} writes were answered, but ${added} are in the file`)
}
