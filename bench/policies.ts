import type { Profiler } from 'node:inspector'
import { Session } from 'node:inspector/promises'
import { responseClass } from '../src/http/server/raw-headers.ts'
import { authorization, cpuPerRequest, type InProcessRequest, startInProcess } from './in-process-service.ts'
import { openSandbox } from './sandbox.ts'
import { insertProducts, nameOf, priceOf } from './service.ts'

/**
 * Divides the CPU time of a request among the policies and the other parts of the service, in one process and without a
 * network. Each sample of the CPU profile counts for the innermost function of `src` or of a package on the stack, so
 * that the time of Node.js, SQLite and V8 counts for their caller. Prints µs per request: the lowest CPU time of several
 * rounds without the profiler, multiplied by the share of the samples of each part.
 *
 *   node --max-semi-space-size=16 bench/policies.ts
 */
const [rounds, perRound, profiled, rows] = [5, 5_000, 20_000, 10_000]

const common = ['host', 'localhost', 'x-forwarded-proto', 'https', 'authorization', authorization]
const idAt = (at: number) => 1 + ((at * 7_919) % rows)
const read = (at: number, more: readonly string[] = []): InProcessRequest => ({
  ...{ method: 'GET', path: `/products/${idAt(at)}`, raw: [...common, ...more] },
})
const write = (method: 'POST' | 'PUT', path: string, at: number): InProcessRequest => {
  const body = Buffer.from(JSON.stringify({ name: nameOf(at), price: priceOf(at) }))
  const fields = ['content-type', 'application/json', 'content-length', String(body.length)]
  return { method, path, raw: [...common, ...fields], body }
}

const cases: [title: string, status: number, requestAt: (at: number) => InProcessRequest][] = [
  ['GET, known head', 200, (at) => read(at)],
  ['GET, new head', 200, (at) => read(at, ['x-request', String(at)])],
  ['PUT', 200, (at) => write('PUT', `/products/${idAt(at)}`, at)],
  ['POST', 201, (at) => write('POST', '/products', at)],
]

/** The parts of the service; the first pattern that matches a file's path names its part, `$1` being the first group. */
const parts: [pattern: RegExp, name: string][] = [
  [/\/src\/http\/policies\/([\w-]+)\.ts$/, '$1'],
  [/\/src\/http\/fast-path\//, 'fast path'],
  [/\/src\/rate-limits\//, 'rate limits and quotas'],
  [/\/src\/idempotency\//, 'idempotency'],
  [/\/src\/versioning\//, 'versioning'],
  [
    /\/src\/(logging|traffic|metrics)\/|\/src\/observation|\/access-log\.ts$|\/request-counts\.ts$/,
    'log and statistics',
  ],
  [/\/src\/http\//, 'HTTP server'],
  [/\/src\/storage\//, 'storage'],
  [/\/src\/(resources|queue|catalog)\//, 'resources'],
  [/\/node_modules\/(fastify|find-my-way|avvio)\//, 'Fastify'],
  [/\/node_modules\/kysely\//, 'storage'],
  [/\/bench\/|\/test\//, 'benchmark'],
]

/** Returns the name of the part that a file belongs to; undefined for Node.js and native code. */
function partOf(url: string): string | undefined {
  if (!url.startsWith('file:') && !url.startsWith('/')) return undefined
  for (const [pattern, name] of parts) {
    const found = pattern.exec(url)
    if (found) return name.replace('$1', found[1] ?? '')
  }
  return 'other'
}

const special = new Map([
  ['(garbage collector)', 'garbage collection'],
  ['(idle)', 'idle'],
])
/** Parts that take no time of the service. */
const excluded = ['idle', 'benchmark']

/** Returns the share of the samples of each part. */
function sharesOf({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): Map<string, number> {
  const names = new Map<number, string>()
  const name = (node: Profiler.ProfileNode, inherited: string) => {
    const { functionName, url } = node.callFrame
    const own = special.get(functionName) ?? partOf(url)
    names.set(node.id, own ?? inherited)
    for (const child of node.children ?? []) {
      const found = byId.get(child)
      if (found) name(found, own ?? inherited)
    }
  }
  const byId = new Map(nodes.map((node) => [node.id, node]))
  name(nodes[0] as Profiler.ProfileNode, 'Node.js')
  const times = new Map<string, number>()
  for (const [at, id] of samples.entries()) {
    const part = names.get(id) ?? 'Node.js'
    times.set(part, (times.get(part) ?? 0) + (timeDeltas[at] ?? 0))
  }
  for (const part of excluded) times.delete(part)
  const sum = [...times.values()].reduce((all, time) => all + time, 0)
  return new Map([...times].map(([part, time]) => [part, time / sum]))
}

const sandbox = openSandbox()
const service = await startInProcess({
  ...{ folder: sandbox.folder, scopes: ['products:write'] },
  fill: async (db) => insertProducts(db.url.slice('file:'.length), rows),
})
const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.setSamplingInterval', { interval: 100 })

let sent = 0
const columns: Map<string, number>[] = []
for (const [title, status, requestAt] of cases) {
  const measure = (count: number) =>
    cpuPerRequest(service.server, { count, status, responseClass }, () => requestAt(sent++))
  let lowest = Number.POSITIVE_INFINITY
  for (let round = 0; round <= rounds; round++) lowest = Math.min(lowest, await measure(perRound))
  await session.post('Profiler.start')
  await measure(profiled)
  const { profile } = await session.post('Profiler.stop')
  const times = [...sharesOf(profile)].map(([part, share]): [string, number] => [part, share * lowest])
  columns.push(new Map([['all', lowest], ...times]))
  console.log(`${title}: ${lowest.toFixed(1)} µs`)
}

const shown = [...new Set(columns.flatMap((column) => [...column.keys()]))]
  .map((part) => ({ part, times: columns.map((column) => column.get(part) ?? 0) }))
  .filter(({ times }) => times.some((time) => time >= 0.05))
  .sort((one, other) => Math.max(...other.times) - Math.max(...one.times))
console.log(`\n| µs of CPU time | ${cases.map(([title]) => title).join(' | ')} |\n|---|${'---|'.repeat(cases.length)}`)
for (const { part, times } of shown) {
  console.log(`| ${part} | ${times.map((time) => (time < 0.05 ? '–' : time.toFixed(1))).join(' | ')} |`)
}
await sandbox.clear()
process.exit(0)
