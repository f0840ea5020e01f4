import type { Bench, Measurement } from './bench.ts'
import { memoryOf, resetPeak } from './cpu-and-memory.ts'
import { expectResponse, proxied, requestText, type Target } from './http.ts'
import type { LoadResult } from './load.ts'
import { bestRun, withRatio } from './results.ts'
import { runLoad } from './sandbox.ts'
import {
  countProducts,
  countRevisions,
  nameOf,
  priceOf,
  type Service,
  startService,
  unreachableLimits,
} from './service.ts'
import { runWrk } from './wrk.ts'

/** A table row that measures requests per second. */
export interface RequestRow {
  name: string
  title: string
  floor: number
  /** The expected status of the service's responses. */
  status: number
  /** The expected status of the reference's responses. */
  referenceStatus: number
  /**
   * Builds the requests, which are sent in rotation. `headers` contains the fields that every request needs, such as
   * the access token.
   */
  requests: (headers: Headers, rows: number, service: Target) => string[] | Promise<string[]>
  /** Builds the requests of a reference that does not understand those of the service. */
  referenceRequests?: RequestRow['requests']
  /**
   * `count` returns the number of writes stored in the file; `share` is the fraction of requests that write; `status` is
   * the expected status of writes if it differs from that of the other requests.
   */
  writes?: { count: (databaseFile: string) => number; share: number; status?: number }
}

type Headers = Record<string, string>

/** Number of distinct requests: enough that caching a single response does not help. */
export const distinct = 256

const reads = (headers: Headers, rows: number) =>
  Array.from({ length: distinct }, (_, at) => requestText('GET', `/products/${spread(at, rows)}`, headers))

/**
 * Returns an id; successive values of `at` spread the ids over the table. With a million rows, nearly all ids have six
 * digits.
 */
const spread = (at: number, rows: number) => Math.max(1, Math.floor((rows * (at + 26)) / (distinct + 26)))

/** The lengths of the measured lists. */
export const limits = [20, 50, 100]

/** Builds requests for successive pages by following the `next` link of each page. */
export async function pages(service: Target, headers: Headers, first: string): Promise<string[]> {
  const paths = [first]
  while (paths.length < distinct) {
    const response = await expectResponse(service, 200, { method: 'GET', path: paths.at(-1) as string, headers })
    const next = /<([^>]+)>; rel="next"/.exec(String(response.headers.link))?.[1]
    if (next === undefined) break
    paths.push(next)
  }
  return paths.map((path) => requestText('GET', path, headers))
}

/** Number of rows read at random: too many to fit into the heap's young generation. */
const randomRows = 10_000
/** In the mixed measurements, one request in this many is a write. */
const requestsPerWrite = 20

/** Returns distinct ids from the whole table, in the same pseudo-random order in every run. */
function shuffledIds(rows: number): number[] {
  const count = Math.min(randomRows, rows)
  const ids = Array.from({ length: count }, (_, at) => Math.floor((rows * (at + 1)) / count))
  let seed = 1
  for (let at = count - 1; at > 0; at--) {
    // The Park–Miller generator, whose products stay below 2^53.
    seed = (seed * 48_271) % 2_147_483_647
    const other = seed % (at + 1)
    const id = ids[at] as number
    ids[at] = ids[other] as number
    ids[other] = id
  }
  return ids
}

/** Builds one read request per id. */
const randomReads = (headers: Headers, rows: number) =>
  shuffledIds(rows).map((id) => requestText('GET', `/products/${id}`, headers))

/**
 * Returns a function that builds one request per id: mostly reads, but one in `requestsPerWrite` replaces the product
 * (PUT) or creates another one (POST).
 */
const randomReadsAndWrites =
  (method: 'PUT' | 'POST') =>
  (headers: Headers, rows: number): string[] => {
    const json = { ...headers, 'content-type': 'application/json' }
    return shuffledIds(rows).map((id, at) => {
      if (at % requestsPerWrite > 0) return requestText('GET', `/products/${id}`, headers)
      const path = method === 'PUT' ? `/products/${id}` : '/products'
      return requestText(method, path, json, JSON.stringify({ name: nameOf(id), price: priceOf(at) }))
    })
  }

export const rows: RequestRow[] = [
  { name: 'get', title: 'GET /products/{id}', floor: 0.5, status: 200, referenceStatus: 200, requests: reads },
  {
    name: 'not-modified',
    title: 'GET /products/{id} → 304',
    floor: 0.6,
    status: 304,
    referenceStatus: 200,
    requests: (headers, count) => reads({ ...headers, 'if-none-match': '"1"' }, count),
  },
  {
    name: 'create',
    title: 'POST /products, durable',
    floor: 0.25,
    status: 201,
    referenceStatus: 201,
    requests: (headers) =>
      Array.from({ length: distinct }, (_, at) => {
        const body = JSON.stringify({ name: nameOf(2_000_000 + at), price: priceOf(at) })
        return requestText('POST', '/products', { ...headers, 'content-type': 'application/json' }, body)
      }),
    writes: { count: countProducts, share: 1 },
  },
  {
    name: 'get-random',
    title: `GET /products/{id}, random of ${randomRows.toLocaleString('en')}`,
    floor: 0.4,
    status: 200,
    referenceStatus: 200,
    requests: randomReads,
  },
  {
    name: 'mixed',
    title: '95 % GET, 5 % PUT durable, random',
    floor: 0.1,
    status: 200,
    referenceStatus: 200,
    requests: randomReadsAndWrites('PUT'),
    writes: { count: countRevisions, share: 1 / requestsPerWrite },
  },
  {
    name: 'mixed-create',
    title: '95 % GET, 5 % POST durable, random',
    floor: 0.3,
    status: 200,
    referenceStatus: 200,
    requests: randomReadsAndWrites('POST'),
    writes: { count: countProducts, share: 1 / requestsPerWrite, status: 201 },
  },
  ...limits.map(
    (limit): RequestRow => ({
      name: `list-${limit}`,
      title: `GET /products?limit=${limit}`,
      floor: limit < 100 ? 0.8 : 0.9,
      status: 200,
      referenceStatus: 200,
      requests: (headers, _rows, service) => pages(service, headers, `/products?limit=${limit}`),
    }),
  ),
]

export const requestRows: Measurement[] = rows.map((row) => ({
  name: row.name,
  measure: (bench) => measure(bench, row),
}))

/** Measures reads with rate limits enabled: requests are counted, and responses have the rate-limit fields. */
export const countedRows: Measurement[] = rows.slice(0, 2).map((row, at) => {
  const counted = { name: `${row.name}-counted`, title: `${row.title}, with limits`, floor: [0.6, 0.7][at] as number }
  return {
    name: counted.name,
    measure: async (bench) => {
      const options = { name: counted.name, limits: unreachableLimits }
      const service = await startService(bench.sandbox, bench.options, bench.pin, options)
      const measured = await measure({ ...bench, service }, { ...row, ...counted })
      await service.stop()
      return measured
    },
  }
})

/** Measures a row on the service and on a reference, which is bare Fastify or another service. */
export async function measure(bench: Bench, row: RequestRow, referenceName = 'bare Fastify') {
  const { service, reference } = bench
  const stored = row.writes?.count(service.databaseFile) ?? 0
  const responses: number[] = []
  const run = async (target: Target, seconds: number) => {
    const result = await runOnce(bench, row, target, seconds)
    if (target === service) responses.push(result.responses)
    return result
  }
  resetPeak(service.pid)
  const rounds = await alternate(bench, row.title, { reference, service }, run)
  expectStored(bench, row, stored, responses)
  service.trimLog()
  const { name, title, floor } = row
  const about = { name, title, floor, unit: 'requests' as const, reference: referenceName }
  return withRatio({ ...about, rounds, memory: memoryOf(service.pid) })
}

/** Warms up both sides, then runs them alternately for the configured number of rounds. */
export async function alternate(
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
      bestRun(async () => {
        const result = await run(target, options.seconds)
        say(`  ${round} ${target.name.padEnd(9)} ${sideLine(result)}`)
        return { ...result }
      })
    rounds.push({ reference: await undisturbed(reference), service: await undisturbed(service) })
  }
  return rounds
}

type LoadContext = Pick<Bench, 'options' | 'sandbox' | 'pin' | 'service' | 'useWrk'>

/** Sends a row's requests to a target, with an access token of the target or, if it issues none, of the service. */
export async function runOnce(
  { options, sandbox, pin, service, useWrk }: LoadContext,
  row: RequestRow,
  target: Target,
  seconds: number,
) {
  const issuer = 'token' in target ? (target as Service) : service
  const headers = { ...proxied(options.tls), authorization: `Bearer ${await issuer.token()}` }
  const isService = target === service
  const requests = (!isService && row.referenceRequests) || row.requests
  const order = {
    port: target.port,
    tls: target.tls,
    requests: await requests(headers, options.rows, service),
    connections: options.connections,
    warmSeconds: 0.5,
    seconds,
    serverPid: target.pid,
  }
  const expected = isService ? row.status : row.referenceStatus
  if (useWrk) return runWrk(sandbox, order, expected)
  return runLoad(sandbox, pin, order, [expected, row.writes?.status ?? expected])
}

const percent = (share: number) => (Number.isNaN(share) ? '–' : `${Math.round(share * 100)} %`).padStart(5)

const sideLine = (result: LoadResult) =>
  [
    `${Math.round(result.perSecond).toLocaleString('en').padStart(8)}/s`,
    `p50 ${result.p50Ms.toFixed(2)} p99 ${result.p99Ms.toFixed(2)} ms`,
    `server ${percent(result.serverShare)} (${result.serverUs.toFixed(1)} µs each, others ${percent(result.othersShare)})`,
    `load ${percent(result.loadShare)} (others ${percent(result.othersLoadShare)})`,
  ].join('   ')

/** Throws unless every confirmed write is in the file; writes in flight at the end of a run may also be in the file. */
function expectStored(
  { service, options, useWrk }: Bench,
  { writes }: RequestRow,
  before: number,
  responses: number[],
): void {
  if (writes === undefined) return
  const added = writes.count(service.databaseFile) - before
  const writesOf = (count: number) => Math.floor(count * writes.share)
  const min = responses.reduce((sum, count) => sum + writesOf(count), 0)
  // wrk is started twice: to warm up, and to measure.
  const inFlight = options.connections * responses.length * (useWrk ? 2 : 1)
  // In a mixed run, the fraction of writes is exact for the requests sent, but not for the responses received.
  const missing = writes.share < 1 ? inFlight : 0
  if (added >= min - missing && added <= min + inFlight) return
  throw new Error(`${min} writes were confirmed, but ${added} are in the file`)
}
