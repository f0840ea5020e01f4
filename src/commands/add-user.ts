import { randomBytes } from 'node:crypto'
import { operator } from '../db/audit.ts'
import type { Database, Queryable } from '../db/database.ts'
import { rowsOf } from '../db/rows.ts'
import { inputValidator } from '../http/bodies.ts'
import { fromValidation } from '../http/framework-errors.ts'
import { openQueue } from '../queue/open.ts'
import { announcer, heardOf } from '../resources/announce.ts'
import { users } from '../resources/users.ts'

const { declaration } = users
const check = inputValidator(declaration.body, 'body')

/** A user that is not there yet. */
export type NewUser = { name: string; email: string }

/** What is wanted, by the rules of POST /users and trimmed as there. Throws an error that names each broken one. */
export function newUser(wanted: NewUser): NewUser {
  const user = { ...wanted }
  const result = check(user)
  if (!('error' in result)) return user
  const { errors = [] } = fromValidation(result.error, 'body')
  throw new Error(errors.map(({ field, message }) => `The ${field} ${message}`).join('; '))
}

/** Adds users as POST /users does: whoever listens to `user.created` is told. To be closed. */
export async function userAdder(db: Database, now: () => number) {
  const onError = (error: unknown) => process.stderr.write(`plinth: ${error}\n`)
  const queue = await openQueue({ db, now, random: Math.random, onError })
  const announce = announcer({ queue, random: randomBytes }, declaration)
  const { table, folded, kinds } = declaration
  const rows = rowsOf(db, { table, folded, fields: Object.keys(kinds), heard: heardOf(declaration) })
  const who = operator.subject as string
  const caller = { clientId: who, subject: who, scopes: new Set<string>() }
  const add = async (tx: Queryable, user: NewUser): Promise<number> => {
    const at = new Date(now()).toISOString()
    const { row, heard } = await rows.insert(tx, { address: null, phone: null, ...user }, at)
    if (heard) await announce(tx, 'created', row, caller, at)
    return row.id
  }
  return { add, close: () => queue.stop(0) }
}
