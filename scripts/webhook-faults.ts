import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { migrate } from '../src/storage/migrate.ts'
import { openDatabase } from '../src/storage/open.ts'
import type { Place } from '../test/support/engines.ts'
import { faultRun } from '../test/support/webhook-faults.ts'
import { killRun } from '../test/support/webhook-kills.ts'

const usage = `Delivers webhooks to misbehaving receivers, and kills the service during deliveries.

  node scripts/webhook-faults.ts [options]

  --events N       events for twelve misbehaving receivers, on a simulated clock (2000)
  --healthy N      events for healthy receivers at the same time, whose 95th percentile is checked (100)
  --kills N        how often a service is killed with SIGKILL (20; 0 for never)
  --postgres URL   a server on which the run creates its own databases (default: SQLite)
  --seed N         seed of the random numbers, to repeat a run (the time)
  --help           print this text

Fails if an event is lost, if bytes or signatures differ between attempts, or if healthy receivers wait for others.
`

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const { values } = parseArgs({
  options: {
    events: { type: 'string', default: '2000' },
    healthy: { type: 'string', default: '100' },
    kills: { type: 'string', default: '20' },
    postgres: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 100_000) },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) say(usage)
else await run(whole('events'), whole('healthy'), whole('kills'), whole('seed'))

function whole(name: 'events' | 'healthy' | 'kills' | 'seed'): number {
  const value = Number(values[name])
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`--${name} ${values[name]}: expected a whole number`)
  return value
}

async function run(events: number, healthyEvents: number, kills: number, seed: number): Promise<void> {
  say(`seed ${seed}, ${values.postgres ? 'PostgreSQL' : 'SQLite'}`)
  if (events > 0) {
    await inPlace(async ({ url }) => {
      const db = await openDatabase(url)
      await migrate(db)
      const figures = await faultRun(db, { events, healthyEvents, seed, say }).finally(db.close)
      say(JSON.stringify(figures))
    })
  }
  if (kills > 0) await inPlace(async (place) => say(JSON.stringify(await killRun(place, { kills, seed, say }))))
}

/** Runs one phase of the test on a new database, which is removed afterwards. */
async function inPlace(work: (place: Place) => Promise<void>): Promise<void> {
  const place = await (values.postgres ? postgresPlace(values.postgres) : sqlitePlace())
  await work(place).finally(place.remove)
}

async function sqlitePlace(): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-faults-'))
  const remove = async () => rmSync(folder, { recursive: true, force: true })
  return { url: `file:${join(folder, 'plinth.db')}`, remove }
}

async function postgresPlace(server: string): Promise<Place> {
  const name = `plinth_faults_${randomBytes(6).toString('hex')}`
  const administer = async (statement: string) => {
    const client = new pg.Client({ connectionString: server })
    await client.connect()
    await client.query(statement).finally(() => client.end())
  }
  await administer(`create database ${name}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return { url: url.href, remove: () => administer(`drop database ${name} with (force)`) }
}
