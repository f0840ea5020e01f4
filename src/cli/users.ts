import { randomBytes } from 'node:crypto'
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { Command } from 'commander'
import { auditRecorder, operator, passwordChanged } from '../audit/chain.ts'
import { users } from '../catalog/users.ts'
import { baseUrlOf, type Config } from '../config/config.ts'
import { inputValidator } from '../http/policies/body-parsing.ts'
import { fromValidation } from '../http/problems/framework-errors.ts'
import {
  accountByEmail,
  listAccounts,
  lockUser,
  openAccount,
  type Role,
  setPasswordHash,
} from '../oauth/users/accounts.ts'
import { invitations } from '../oauth/users/invitations.ts'
import { invitationMail } from '../oauth/users/mail.ts'
import { passwordError } from '../oauth/users/password-policy.ts'
import { passwords } from '../oauth/users/passwords.ts'
import { openQueue } from '../queue/open.ts'
import { eventPublisher, hasSubscriber } from '../resources/change-events.ts'
import type { Database, Queryable } from '../storage/database.ts'
import { caseFold } from '../storage/rows/page-query.ts'
import { rowsOf } from '../storage/rows/rows.ts'
import { openStores, type Stores } from '../stores.ts'

const print = (text: string) => void process.stdout.write(`${text}\n`)
const now = Date.now

interface Named {
  name?: string
  admin?: boolean
}

/** Creates `plinth users invite|set-password|list`; a running service applies changes at once. */
export function usersCommand(configuration: () => Config): Command {
  const using = async (work: (stores: Stores, config: Config) => Promise<void>) => {
    const config = configuration()
    const stores = await openStores(config)
    await work(stores, config).finally(() => stores.db.close())
  }
  const users = new Command('users')
  users
    .command('invite')
    .description('Print a link where a user chooses a password; it works once, for 30 minutes')
    .argument('<email>')
    .option('--name <name>', 'adds the user if nobody has this address')
    .option('--admin', 'makes the user an administrator')
    .action((email, options: Named) => using((stores, config) => invite(stores, config, email, options)))
  users
    .command('set-password')
    .description('Set a password, read from standard input; ends all sessions and tokens of the user')
    .argument('<email>')
    .option('--name <name>', 'adds the user if nobody has this address')
    .option('--admin', 'makes the user an administrator')
    .action((email, options: Named) => using((stores) => setPassword(stores, email, options)))
  users
    .command('list')
    .description('List the users who can log in or are invited')
    .option('--json', 'print JSON')
    .action((options) => using((stores) => list(stores, options)))
  return users
}

const roleOf = ({ admin }: Named): Role | undefined => (admin ? 'admin' : undefined)

async function invite(stores: Stores, config: Config, email: string, options: Named): Promise<void> {
  const { db, sealer } = stores
  const user = await userOf(db, email, options)
  const { productName, smtpUrl, smtpFrom } = config.users
  const hasher = passwords(randomBytes)
  const { inviteIn } = invitations({
    ...{ db, passwords: hasher, issuer: baseUrlOf(config), now, random: randomBytes },
    record: auditRecorder(sealer, now),
  })
  const invitation = await withUser(db, user, (tx, userId) => inviteIn(tx, userId, roleOf(options), operator))
  print(`${invitation.url}\nworks once, until ${invitation.expiresAt}`)
  if (smtpUrl === null || smtpFrom === null) return
  await invitationMail({ url: smtpUrl, from: smtpFrom, productName })(invitation)
  print(`sent to ${invitation.email}`)
}

type User = NewUser & { id?: number }

/** Returns the user with this e-mail address. If there is none, returns a new user to add, or throws if no name is given. */
async function userOf(db: Database, email: string, { name }: Named): Promise<User> {
  const find = db.read
    .selectFrom('users')
    .select(['id', 'name', 'email'])
    .where('emailKey', '=', caseFold(email.trim()))
  const found = await find.executeTakeFirst()
  if (found) return found
  if (name === undefined) throw new Error(`There is no user ${email}; pass --name to add one`)
  return newUser({ name, email })
}

/** Runs `work` for a user in one transaction, adding the user first if necessary. */
async function withUser<T>(db: Database, user: User, work: (tx: Queryable, userId: number) => Promise<T>): Promise<T> {
  const { id } = user
  if (id !== undefined) return db.write((tx) => work(tx, id))
  const { add, close } = await userAdder(db, now)
  return db.write(async (tx) => work(tx, await add(tx, user))).finally(close)
}

async function setPassword({ db, sealer }: Stores, email: string, options: Named): Promise<void> {
  const owner = await userOf(db, email, options)
  const password = await readSecret(`Password for ${owner.email}: `)
  const violation = await passwordError(password, owner)
  if (violation !== undefined) throw new Error(`The password ${violation}`)
  const hash = await passwords(randomBytes).hash(password)
  const role = roleOf(options)
  await withUser(db, owner, async (tx, userId) => {
    await lockUser(tx, db.engine, userId)
    await openAccount(tx, userId, role, now())
    await setPasswordHash(tx, userId, hash, now())
    const entry = { ...passwordChanged(String(userId), operator), ...(role && { details: { role } }) }
    await auditRecorder(sealer, now)(tx, entry)
  })
  const account = await accountByEmail(db, owner.email)
  print(`${owner.email} can log in now, as ${account?.role}`)
}

async function list({ db }: Stores, { json }: { json?: boolean }): Promise<void> {
  const accounts = await listAccounts(db)
  const views = accounts.map(({ passwordHash, ...account }) => ({ ...account, hasPassword: passwordHash !== null }))
  if (json) return print(JSON.stringify(views, null, 2))
  for (const { userId, email, name, role, hasPassword } of views) {
    print(`${userId}  ${role}  ${hasPassword ? 'has a password' : 'invited'}  ${email}  ${name}`)
  }
}

const { declaration } = users
const check = inputValidator(declaration.body, 'body')

/** A user to add. */
export type NewUser = { name: string; email: string }

/** Validates and trims a new user's fields, like POST /users. Throws an error that lists every violation. */
export function newUser(input: NewUser): NewUser {
  const user = { ...input }
  const result = check(user)
  if (!('error' in result)) return user
  const { errors = [] } = fromValidation(result.error, 'body')
  throw new Error(errors.map(({ field, message }) => `The ${field} ${message}`).join('; '))
}

/**
 * Returns `add`, which adds users like POST /users and records the `user.created` event, and `close`, which must be called
 * afterwards.
 */
export async function userAdder(db: Database, now: () => number) {
  const onError = (error: unknown) => process.stderr.write(`plinth: ${error}\n`)
  const queue = await openQueue({ db, now, random: Math.random, onError })
  const publish = eventPublisher({ queue, random: randomBytes }, declaration)
  const { table, folded, kinds } = declaration
  const rows = rowsOf(db, { table, folded, fields: Object.keys(kinds), subscribed: hasSubscriber(declaration) })
  const subject = operator.subject as string
  const caller = { clientId: subject, subject, scopes: new Set<string>() }
  const add = async (tx: Queryable, user: NewUser): Promise<number> => {
    const at = new Date(now()).toISOString()
    const { row, subscribed } = await rows.insert(tx, { address: null, phone: null, ...user }, at)
    if (subscribed) await publish(tx, 'created', row, caller, at)
    return row.id
  }
  return { add, close: () => queue.stop(0) }
}

/** Reads one line: from a terminal, with a prompt and without echo, or from a pipe. */
async function readSecret(prompt: string): Promise<string> {
  const { stdin, stderr } = process
  if (stdin.isTTY) stderr.write(prompt)
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: stdin, output: silent, terminal: stdin.isTTY })
  try {
    for await (const line of lines) return line
    return ''
  } finally {
    lines.close()
    if (stdin.isTTY) stderr.write('\n')
  }
}
