import { randomBytes } from 'node:crypto'
import type { TObject, TSchema } from 'typebox'
import { auditRecorder, operator, userUpdated } from '../audit/chain.ts'
import type { ExtendedUsers } from '../catalog/extended-users.ts'
import { type UserRows, userRows } from '../catalog/user-rows.ts'
import { userOptions, users } from '../catalog/users.ts'
import { inputValidator } from '../http/policies/body-parsing.ts'
import { fromValidation } from '../http/problems/framework-errors.ts'
import { openQueue } from '../queue/open.ts'
import { columnType } from '../resources/column-types.ts'
import type { Declaration } from '../resources/declaration.ts'
import type { Database, Queryable } from '../storage/database.ts'
import { caseFold } from '../storage/rows/page-query.ts'
import type { Stores } from '../stores.ts'
import { parsePairs } from './print.ts'

type Values = Record<string, unknown>

/** The stores, and the fields and roles that the definition adds to users. */
export interface UserStores extends Stores {
  extended: ExtendedUsers | undefined
}

/** The options that set a user's role and the fields that the definition adds to users. */
export interface FieldOptions {
  field?: string[]
  /** `false` for `--no-role`. */
  role?: string | false
}

/** Trims the strings in a request body. Throws an error that lists each violation if the body is not valid. */
function checkUser(schema: TObject, body: Values): void {
  const result = inputValidator(schema, 'body')(body)
  if (!('error' in result)) return
  const { errors = [] } = fromValidation(result.error, 'body')
  throw new Error(errors.map(({ field, message }) => `The ${field} ${message}`).join('; '))
}

/** Returns the values of `--field` and `--role`, validated as in a request body; null removes a value. */
export function addedValues(extended: ExtendedUsers | undefined, { field = [], role }: FieldOptions): Values {
  const texts = Object.entries(parsePairs('--field', field))
  if (texts.length === 0 && role === undefined) return {}
  const { fields = [], roles = [] } = extended ?? {}
  const unknown = texts.find(([name]) => !fields.includes(name))
  if (unknown) throw new Error(`--field cannot set ${unknown[0]}: ${available('the fields', fields)}`)
  if (typeof role === 'string' && !roles.includes(role)) {
    throw new Error(`--role cannot be ${role}: ${available('the roles', roles)}`)
  }
  const { body, kinds } = (extended as ExtendedUsers).collection.declaration
  const sent = texts.map(([name, text]) => [name, text === '' ? null : jsonOf(text, kinds[name])])
  const values: Values = { ...Object.fromEntries(sent), ...(role !== undefined && { role: role || null }) }
  const present = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null))
  const properties = Object.fromEntries(Object.keys(present).map((name) => [name, body.properties[name] as TSchema]))
  checkUser({ ...body, required: [], properties } as unknown as TObject, present)
  for (const [name, value] of Object.entries(present)) {
    const { normalize } = columnType(kinds[name] as Declaration['kinds'][string])
    present[name] = normalize ? normalize(value) : value
  }
  return { ...values, ...present }
}

const available = (what: string, names: readonly string[]) =>
  names.length > 0 ? `${what} are ${names.join(', ')}` : 'this service declares none in plinth({ users })'

/**
 * Parses a text as JSON if the field contains numbers, booleans, references or JSON. Text that is not JSON is returned
 * unchanged and left to validation.
 */
function jsonOf(text: string, kind: Declaration['kinds'][string] | undefined): unknown {
  if (kind === undefined || !['integer', 'number', 'boolean', 'json', 'reference'].includes(kind)) return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

type User = NewUser & { id?: number }

/**
 * Finds the user with this e-mail address. If there is none but a name is given, returns a new user to add; otherwise
 * throws.
 */
export async function userOf(db: Database, email: string, { name }: { name?: string }): Promise<User> {
  const find = db.read
    .selectFrom('users')
    .select(['id', 'name', 'email'])
    .where('emailKey', '=', caseFold(email.trim()))
  const found = await find.executeTakeFirst()
  if (found) return found
  if (name === undefined) throw new Error(`There is no user ${email}; pass --name to add one`)
  return newUser({ name, email })
}

type Work<T> = (tx: Queryable, userId: number) => Promise<T>

/** In one transaction, adds the user if necessary, sets the given values, and runs `work`. */
export async function withUser<T>(
  { db, sealer, extended }: UserStores,
  user: User,
  values: object,
  work: Work<T>,
): Promise<T> {
  const { id } = user
  const fields = Object.keys(values)
  if (id !== undefined && fields.length === 0) return db.write((tx) => work(tx, id))
  const record = auditRecorder(sealer, Date.now)
  return withUserRows(db, extended, ({ add, change }) =>
    db.write(async (tx) => {
      const writing = { tx, caller }
      if (id !== undefined) await change(writing, id, { ...values })
      const userId = id ?? (await add(writing, { ...user, ...values }))
      const result = await work(tx, userId)
      if (fields.length > 0) await record(tx, { ...operator, ...userUpdated(userId, fields, { ...values }) })
      return result
    }),
  )
}

const caller = { clientId: operator.subject as string, subject: operator.subject as string }

/** A user to add. */
export type NewUser = { name: string; email: string }

/** Returns the new user with trimmed fields, validated as in POST /users. Throws an error that lists each violation. */
function newUser(input: NewUser): NewUser {
  const user = { ...input }
  checkUser(userOptions.body, user)
  return user
}

/** Runs `work` with functions that write users and publish the events for their changes. */
async function withUserRows<T>(
  db: Database,
  extended: ExtendedUsers | undefined,
  work: (rows: UserRows) => Promise<T>,
): Promise<T> {
  const now = Date.now
  const onError = (error: unknown) => process.stderr.write(`plinth: ${error}\n`)
  const queue = await openQueue({ db, now, random: Math.random, isWorker: false, onError })
  const { declaration } = extended?.collection ?? users
  return work(userRows({ db, queue, random: randomBytes, now }, declaration)).finally(() => queue.stop(0))
}
