import { responseClass } from '../src/http/server/raw-headers.ts'
import hooked from './hooked-notes.ts'
import { authorization, cpuPerRequest, startInProcess } from './in-process-service.ts'
import plain from './notes.ts'
import { openSandbox } from './sandbox.ts'

/**
 * Compares the CPU time of POST with and without a `created` hook in one process, without a network. The measured time
 * starts with the parsed request, ends with the written response, and includes the commit. Alternates between both
 * variants, and prints the median of each and the median ratio of adjacent rounds.
 */
const [rounds, perRound, distinct] = [15, 4_000, 256]
const raw = [
  ...['host', 'localhost', 'x-forwarded-proto', 'https', 'authorization', authorization],
  ...['content-type', 'application/json'],
]
const bodies = Array.from({ length: distinct }, (_, at) => Buffer.from(JSON.stringify({ name: `Note ${at}` })))

const requestAt = (at: number) => {
  const body = bodies[at % distinct] as Buffer
  return { method: 'POST' as const, path: '/notes', raw: [...raw, 'content-length', String(body.length)], body }
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number

const sandbox = openSandbox()
const start = (definition: typeof plain) =>
  startInProcess({ folder: sandbox.folder, definition, scopes: ['notes:write'] })
const services = { plain: await start(plain), hooked: await start(hooked) }
const measured: { plain: number; hooked: number }[] = []
for (let round = 0; round <= rounds; round++) {
  const measure = ({ server }: typeof services.plain) =>
    cpuPerRequest(server, { count: perRound, status: 201, responseClass }, requestAt)
  // The first round only warms up.
  const pair = { plain: await measure(services.plain), hooked: await measure(services.hooked) }
  if (round > 0) measured.push(pair)
}
const [without, withHook] = [median(measured.map(({ plain }) => plain)), median(measured.map(({ hooked }) => hooked))]
const ratio = median(measured.map(({ plain, hooked }) => plain / hooked))
console.log(`POST ${without.toFixed(1)} µs, with a hook ${withHook.toFixed(1)} µs, ratio ${ratio.toFixed(3)}`)
await sandbox.clear()
process.exit(0)
