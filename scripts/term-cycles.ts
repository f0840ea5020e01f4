import { parseArgs } from 'node:util'
import { type Cycle, isGraceful, termCycles, unread } from '../test/support/term-cycles.ts'

const usage = `Stops a service with SIGTERM under load, again and again, and counts the requests that clients lose.

  node scripts/term-cycles.ts [options]

  --cycles N       number of stops (100)
  --rate N         requests per second (200)
  --connections N  number of keep-alive connections (20)
  --drain N        PLINTH_DRAIN of the service, seconds (1)
  --plain          PLINTH_TLS=off, as behind a proxy
  --postgres URL   an empty database for the service (default: SQLite)
  --seed N         seed of the random numbers, to repeat a run (the time)
  --help           print this text

Prints one line per stop. Fails if a processed request gets no response, a connection with a request is reset, a 503 has no
Retry-After, /readyz returns anything but 503, or the service does not exit with 0.
`

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const { values } = parseArgs({
  options: {
    cycles: { type: 'string', default: '100' },
    rate: { type: 'string', default: '200' },
    connections: { type: 'string', default: '20' },
    drain: { type: 'string', default: '1' },
    plain: { type: 'boolean', default: false },
    postgres: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 100_000) },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) say(usage)
else await run()

function whole(name: 'cycles' | 'rate' | 'connections' | 'drain' | 'seed'): number {
  const value = Number(values[name])
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`--${name} ${values[name]}: expected a whole number`)
  return value
}

/** Returns a generator of random numbers that are reproducible from the seed (mulberry32). */
function chance(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

async function run(): Promise<void> {
  const seed = whole('seed')
  say(`seed ${seed}, ${values.plain ? 'plain HTTP' : 'TLS'}, ${values.postgres ? 'PostgreSQL' : 'SQLite'}`)
  const cycles = await termCycles({
    ...{ cycles: whole('cycles'), perSecond: whole('rate'), connections: whole('connections') },
    env: { PLINTH_DRAIN: String(whole('drain')), ...(values.postgres && { DATABASE_URL: values.postgres }) },
    ...{ tls: !values.plain, random: chance(seed), say },
  })
  const sum = (count: (cycle: Cycle) => number) => cycles.reduce((total, cycle) => total + count(cycle), 0)
  const passed = cycles.length > 0 && cycles.every(isGraceful)
  say(
    [
      `${passed ? 'PASS' : 'FAIL'}  ${cycles.length} stops, ${sum(({ written }) => written)} requests written`,
      `read without a response ${sum(({ lost }) => lost.length)}`,
      `reset with a request unread ${sum(({ reset }) => reset.length)}`,
      `503 without Retry-After ${sum(({ bare503 }) => bare503)}`,
      `closed in order, unread ${sum(unread)}`,
    ].join('\n      '),
  )
  process.exitCode = passed ? 0 : 1
}
