import { randomBytes } from 'node:crypto'
import { Command } from 'commander'
import { sql } from 'kysely'
import { auditRecorder, operator, passwordChanged } from '../audit/chain.ts'
import { baseUrlOf, type Config } from '../config/config.ts'
import type { Definition } from '../definition/service.ts'
import { changeAccount } from '../oauth/users/account-changes.ts'
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
import type { Database } from '../storage/database.ts'
import { openStores } from '../stores.ts'
import { readSecret } from './print.ts'
import { addedValues, type FieldOptions, type UserStores, userOf, withUser } from './user-writes.ts'

const print = (text: string) => void process.stdout.write(`${text}\n`)
const now = Date.now

interface Named extends FieldOptions {
  name?: string
  admin?: boolean
}

/**
 * Creates `plinth users invite|update|set-password|lock|unlock|list`. A running service applies changes within 30
 * seconds.
 */
export function usersCommand(configuration: () => Config, definition: () => Promise<Definition>): Command {
  const using = async (work: (opened: UserStores, config: Config) => Promise<void>) => {
    const config = configuration()
    const { users: extended, tables } = await definition()
    const stores = await openStores(config, extended ? tables.filter(({ name }) => name === 'users') : [])
    await work({ ...stores, extended }, config).finally(() => stores.db.close())
  }
  const users = new Command('users')
  users
    .command('invite')
    .description('Print a link where a user chooses a password; it works once, for 30 minutes')
    .argument('<email>')
    .option('--name <name>', 'adds the user if nobody has this address')
    .option('--admin', 'makes the user an administrator')
    .option('--role <role>', 'gives the user a role of the service')
    .option('--field <fields...>', 'sets fields of the service, such as tenant=north')
    .action((email, options: Named) => using((stores, config) => invite(stores, config, email, options)))
  users
    .command('update')
    .description('Set the fields and the role of a user; a field without a value, as in tenant=, is removed')
    .argument('<email>')
    .option('--role <role>', 'a role of the service')
    .option('--no-role', 'no role')
    .option('--field <fields...>', 'fields of the service, such as tenant=north')
    .action((email, options: FieldOptions) => using((stores) => update(stores, email, options)))
  users
    .command('set-password')
    .description('Set a password, read from standard input; ends all sessions and tokens of the user')
    .argument('<email>')
    .option('--name <name>', 'adds the user if nobody has this address')
    .option('--admin', 'makes the user an administrator')
    .action((email, options: Named) => using((stores) => setPassword(stores, email, options)))
  for (const [name, description] of Object.entries(lockCommands)) {
    const command = users.command(name).description(description).argument('<email>')
    command.action((email) => using((stores) => changeLock(stores, email, name === 'lock')))
  }
  users
    .command('list')
    .description('List the users who can log in or are invited')
    .option('--json', 'print JSON')
    .action((options) => using((stores) => list(stores, options)))
  return users
}

const lockCommands = {
  lock: 'Lock an account: its user cannot log in, and all sessions and tokens end',
  unlock: 'Let the user of a locked account log in again',
}

const roleOf = ({ admin }: Named): Role | undefined => (admin ? 'admin' : undefined)

async function invite(opened: UserStores, config: Config, email: string, options: Named): Promise<void> {
  const { db, sealer, extended } = opened
  const values = addedValues(extended, options)
  const user = await userOf(db, email, options)
  const { productName, smtpUrl, smtpFrom } = config.users
  const hasher = passwords(randomBytes)
  const { inviteIn } = invitations({
    ...{ db, passwords: hasher, issuer: baseUrlOf(config), now, random: randomBytes },
    record: auditRecorder(sealer, now),
  })
  const invitation = await withUser(opened, user, values, (tx, userId) =>
    inviteIn(tx, userId, roleOf(options), operator),
  )
  print(`${invitation.url}\nworks once, until ${invitation.expiresAt}`)
  if (smtpUrl === null || smtpFrom === null) return
  await invitationMail({ url: smtpUrl, from: smtpFrom, productName })(invitation)
  print(`sent to ${invitation.email}`)
}

async function update(opened: UserStores, email: string, options: FieldOptions): Promise<void> {
  const values = addedValues(opened.extended, options)
  if (Object.keys(values).length === 0) throw new Error('Pass what to change: --field or --role')
  const user = await userOf(opened.db, email, {})
  await withUser(opened, user, values, async () => {})
  print(`Changed ${user.email}`)
}

async function setPassword(opened: UserStores, email: string, options: Named): Promise<void> {
  const { db, sealer } = opened
  const owner = await userOf(db, email, options)
  const password = await readSecret(`Password for ${owner.email}: `)
  const violation = await passwordError(password, owner)
  if (violation !== undefined) throw new Error(`The password ${violation}`)
  const hash = await passwords(randomBytes).hash(password)
  const role = roleOf(options)
  await withUser(opened, owner, {}, async (tx, userId) => {
    await lockUser(tx, db.engine, userId)
    await openAccount(tx, userId, role, now())
    await setPasswordHash(tx, userId, hash, now())
    const entry = { ...passwordChanged(String(userId), operator), ...(role && { details: { role } }) }
    await auditRecorder(sealer, now)(tx, entry)
  })
  const account = await accountByEmail(db, owner.email)
  print(`${owner.email} can log in now, as ${account?.role}`)
}

async function changeLock({ db, sealer }: UserStores, email: string, locked: boolean): Promise<void> {
  const account = await accountByEmail(db, email)
  if (account === undefined) throw new Error(`There is no account for ${email}`)
  const changer = { engine: db.engine, record: auditRecorder(sealer, now), actor: operator, nowMs: now() }
  await db.write((tx) => changeAccount(tx, changer, account.userId, { locked }))
  print(`${account.email} is ${locked ? 'locked' : 'unlocked'}`)
}

async function list({ db, extended }: UserStores, { json }: { json?: boolean }): Promise<void> {
  const accounts = await listAccounts(db)
  const declared = extended?.roles.length ? await declaredRoles(db) : undefined
  const views = accounts.map(({ passwordHash, ...account }) => ({
    ...account,
    ...(declared && { declaredRole: declared.get(account.userId) ?? null }),
    hasPassword: passwordHash !== null,
  }))
  if (json) return print(JSON.stringify(views, null, 2))
  for (const { userId, email, name, role, declaredRole, hasPassword, lockedAt } of views) {
    const roles = declaredRole ? `${role}, ${declaredRole}` : role
    const state = lockedAt !== null ? 'locked' : hasPassword ? 'has a password' : 'invited'
    print(`${userId}  ${roles}  ${state}  ${email}  ${name}`)
  }
}

/** Returns the declared role of each user who has one, by user id. */
async function declaredRoles(db: Database): Promise<Map<number, string>> {
  const { rows } = await sql<{ id: number; role: string }>`select id, role from users where role is not null`.execute(
    db.read,
  )
  return new Map(rows.map(({ id, role }) => [id, role]))
}
