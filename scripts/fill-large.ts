import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { operator } from '../src/audit/chain.ts'
import { builtIn } from '../src/catalog/service.ts'
import { readConfig } from '../src/config/config.ts'
import { createClient } from '../src/oauth/clients/clients.ts'
import type { Database } from '../src/storage/database.ts'
import { type Sealer, sealer } from '../src/storage/encryption.ts'
import { migrate } from '../src/storage/migrate.ts'
import { openDatabase } from '../src/storage/open.ts'
import { masterKey } from '../src/stores.ts'
import { insert, newRegistration } from '../src/webhooks/registrations.ts'
import { addAudit } from './fill/audit.ts'
import { addBooks, addDeliveries, addTasks, addUsers } from './fill/tables.ts'
import { openTarget, type Target } from './fill/target.ts'

const usage = `Fills a database as large as a service that ran for years, to measure and test with: rows of one client, which
owns the tasks and one webhook with its deliveries, and whose id and secret are printed at the end as JSON.

  node scripts/fill-large.ts --database file:data/plinth.db [options]

  --database URL      file:… or postgres://…; migrated first; nothing else may use it meanwhile
  --data-dir FOLDER   where the service keeps its master key, if not in PLINTH_MASTER_KEY (the folder of the file; ./data)
  --books N           (1,000,000)
  --users N           (1,000,000)
  --tasks N           report tasks of the client, all ended (1,000,000)
  --deliveries N      of one webhook, with their events and tries; one in 1,000 waits for its next try (3,000,000)
  --audit N           entries of the audit log, chained as the service does it (3,000,000; PostgreSQL 10,000,000)
  --callback-url URL  of the webhook (http://127.0.0.1:9/hook)
  --force             add another such lot where one is already
  --help              this text

It exits with 2 when an option is wrong, and with 1 when the database has been filled already.
`

const clientName = 'Large fill'
const million = 1_000_000
const say = (line: string): void => void process.stderr.write(`${line}\n`)

/** An invalid command-line option. */
class WrongOption extends Error {}

try {
  const options = optionsOf(process.argv.slice(2))
  if (options === null) process.stdout.write(usage)
  else await run(options)
} catch (error) {
  say(error instanceof Error ? error.message : String(error))
  if (!(error instanceof WrongOption)) process.exitCode = 1
  else process.exitCode = 2
}

type Options = Exclude<ReturnType<typeof optionsOf>, null>

function optionsOf(args: string[]) {
  const values = parsed(args)
  if (values.help) return null
  const { database = '', force = false } = values
  if (!/^(postgres(ql)?:\/\/|file:).+/.test(database)) {
    throw new WrongOption('--database: expected postgres://… or file:…')
  }
  const isFile = database.startsWith('file:')
  const file = database.replace(/^file:(\/\/(?=\/))?/, '')
  const dataDir = resolve(values['data-dir'] ?? (isFile ? dirname(file) : './data'))
  const callbackUrl = values['callback-url'] ?? 'http://127.0.0.1:9/hook'
  if (!URL.canParse(callbackUrl)) throw new WrongOption(`--callback-url ${callbackUrl}: expected a URL`)
  const counts = {
    books: whole('books', values.books ?? `${million}`),
    users: whole('users', values.users ?? `${million}`),
    tasks: whole('tasks', values.tasks ?? `${million}`),
    deliveries: whole('deliveries', values.deliveries ?? `${3 * million}`),
    audit: whole('audit', values.audit ?? `${(isFile ? 3 : 10) * million}`),
  }
  return { database, dataDir, callbackUrl, force, counts }
}

function parsed(args: string[]) {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean' } as const
  const counts = { books: text, users: text, tasks: text, deliveries: text, audit: text }
  const places = { database: text, 'data-dir': text, 'callback-url': text }
  try {
    return parseArgs({ args, options: { ...places, ...counts, force: flag, help: flag } }).values
  } catch (error) {
    throw new WrongOption((error as Error).message)
  }
}

/** Row ids have eight digits. */
function whole(name: string, value: string): number {
  const count = /^\d{1,8}$/.test(value) ? Number(value) : Number.NaN
  if (Number.isNaN(count)) throw new WrongOption(`--${name} ${value}: expected a whole number below 100,000,000`)
  return count
}

async function run(options: Options): Promise<void> {
  mkdirSync(options.dataDir, { recursive: true, mode: 0o700 })
  const config = readConfig({ PLINTH_MASTER_KEY: process.env.PLINTH_MASTER_KEY })
  const seals = sealer(masterKey(config, options.dataDir), randomBytes)
  const db = await openDatabase(options.database)
  try {
    await migrate(db, { tables: builtIn.tables })
    await refuseFilled(db, options)
    const target = await openTarget(db)
    await fill(options, db, seals, target).finally(target.close)
  } finally {
    await db.close()
  }
}

async function refuseFilled(db: Database, { force, database }: Options): Promise<void> {
  const earlier = await db.read.selectFrom('clients').select('id').where('name', '=', clientName).executeTakeFirst()
  if (earlier === undefined || force) return
  const shown = database.replace(/\/\/.*@/, '//')
  throw new Error(`${shown} has been filled already, for the client ${earlier.id}; --force adds another lot`)
}

async function fill({ counts, callbackUrl }: Options, db: Database, seals: Sealer, target: Target): Promise<void> {
  const start = performance.now()
  const scopes = Object.keys(builtIn.scopes)
  const wanted = { name: clientName, scopes, grants: ['client_credentials'] }
  const { client, secret } = await createClient(db, seals, builtIn.scopes, wanted, { actor: operator })
  const store = { db, sealer: seals, now: Date.now, random: randomBytes }
  const caller = { clientId: client.id, subject: client.id, scopes: new Set(scopes) }
  const { row: webhook } = newRegistration(store, caller, { event: '*', callbackUrl })
  await db.write((tx) => insert(tx, webhook, store, operator))
  const tag = randomBytes(2).toString('hex')
  const lot = { target, tag, client, webhook, nowMs: Date.now(), say }
  await addBooks(lot, counts.books)
  await addUsers(lot, counts.users)
  await addTasks(lot, counts.tasks)
  await addDeliveries(lot, counts.deliveries)
  await addAudit(lot, db, seals, counts.audit)
  await target.finish()
  say(`Filled in ${((performance.now() - start) / 1_000).toFixed(0)} s`)
  const made = { clientId: client.id, clientSecret: secret, webhookId: webhook.id, counts }
  process.stdout.write(`${JSON.stringify(made)}\n`)
}
