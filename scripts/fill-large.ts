import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { operator } from '../src/audit/chain.ts'
import { builtIn } from '../src/catalog/service.ts'
import { readConfig } from '../src/config/config.ts'
import { createClient } from '../src/oauth/clients/clients.ts'
import { openSealer } from '../src/storage/data-keys/open.ts'
import type { Database } from '../src/storage/database.ts'
import type { Sealer } from '../src/storage/encryption.ts'
import { migrate } from '../src/storage/migrate.ts'
import { openDatabase } from '../src/storage/open.ts'
import { masterKey, sealedColumns } from '../src/stores.ts'
import { insert, newRegistration } from '../src/webhooks/registrations.ts'
import { addAudit } from './fill/audit.ts'
import { addBooks, addDeliveries, addTasks, addUsers } from './fill/tables.ts'
import { openTarget, type Target } from './fill/target.ts'

const usage = `Fills a database with as many rows as years of use would leave, for tests and measurements. One new client owns the report
tasks and a webhook with its deliveries; its id and secret are printed at the end as JSON.

  node scripts/fill-large.ts --database file:data/plinth.db [options]

  --database URL      file:… or postgres://…; it is migrated first, and no other process may use it meanwhile
  --data-dir FOLDER   folder with the service's master key, unless PLINTH_MASTER_KEY is set (the folder of the file; ./data)
  --books N           (1,000,000)
  --users N           (1,000,000)
  --tasks N           finished report tasks of the client (1,000,000)
  --deliveries N      deliveries of the webhook with events and attempts; one in 1,000 waits for a retry (3,000,000)
  --audit N           audit entries with a valid hash chain (3,000,000; PostgreSQL 10,000,000)
  --callback-url URL  URL of the webhook (http://127.0.0.1:9/hook)
  --force             fill the database again although it was filled before
  --help              print this text

The exit code is 2 for an invalid option, and 1 if the database was filled before.
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

/** Parses a row count, limited because row ids have eight digits. */
function whole(name: string, value: string): number {
  const count = /^\d{1,8}$/.test(value) ? Number(value) : Number.NaN
  if (Number.isNaN(count)) throw new WrongOption(`--${name} ${value}: expected a whole number below 100,000,000`)
  return count
}

async function run(options: Options): Promise<void> {
  mkdirSync(options.dataDir, { recursive: true, mode: 0o700 })
  const config = readConfig({ PLINTH_MASTER_KEY: process.env.PLINTH_MASTER_KEY })
  const key = masterKey(config, options.dataDir)
  const db = await openDatabase(options.database)
  try {
    await migrate(db, { tables: builtIn.tables })
    const random = (size: number) => randomBytes(size)
    const { sealer: seals } = await openSealer(db, {
      masterKey: () => key,
      columns: sealedColumns,
      now: Date.now,
      random,
    })
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
  const withoutPassword = database.replace(/\/\/.*@/, '//')
  throw new Error(`${withoutPassword} was filled before, for the client ${earlier.id}; --force fills it again`)
}

async function fill({ counts, callbackUrl }: Options, db: Database, seals: Sealer, target: Target): Promise<void> {
  const start = performance.now()
  const scopes = Object.keys(builtIn.scopes)
  const settings = { name: clientName, scopes, grants: ['client_credentials'] }
  const { client, secret } = await createClient(db, seals, builtIn.scopes, settings, { actor: operator })
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
  const summary = { clientId: client.id, clientSecret: secret, webhookId: webhook.id, counts }
  process.stdout.write(`${JSON.stringify(summary)}\n`)
}
