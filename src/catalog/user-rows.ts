import type { Caller } from '../http/policies/authenticate.ts'
import type { Queue } from '../queue/queue.ts'
import type { ReadUser } from '../resources/access/caller-facts.ts'
import { eventPublisher } from '../resources/change-events.ts'
import type { Declaration } from '../resources/declaration.ts'
import { resourceRows } from '../resources/resource-rows.ts'
import type { Database, Queryable } from '../storage/database.ts'
import type { RandomBytes } from '../storage/ids.ts'
import type { ExtendedUsers } from './extended-users.ts'

export interface UserRowsOptions {
  db: Database
  queue: Queue
  random: RandomBytes
  now: () => number
}

/** A transaction, and the caller to record in its events. */
interface Writing {
  tx: Queryable
  caller: Pick<Caller, 'clientId' | 'subject'>
}

type Values = Record<string, unknown>

/**
 * Returns functions with which code other than the /users routes writes users; they publish the same events as the
 * routes.
 */
export function userRows({ db, queue, random, now }: UserRowsOptions, declaration: Declaration) {
  const rows = resourceRows(db, declaration)
  const publish = eventPublisher({ db, queue, random }, declaration)
  const at = () => new Date(now()).toISOString()
  const known = (caller: Writing['caller']): Caller => ({ ...caller, scopes: new Set() })
  return {
    /** Adds a user and returns its id. */
    add: async ({ tx, caller }: Writing, values: Values): Promise<number> => {
      const time = at()
      const { row, subscribed } = await rows.insert(tx, values, time)
      if (subscribed) await publish(tx, 'created', row, known(caller), time, subscribed)
      return Number(row.id)
    },
    /** Changes fields of a user, if the user exists. */
    change: async ({ tx, caller }: Writing, id: number, values: Values): Promise<void> => {
      const time = at()
      const changed = await rows.update(tx, id, values, {}, time)
      if (changed?.subscribed) await publish(tx, 'updated', changed.row, known(caller), time, changed.subscribed)
    },
  }
}

export type UserRows = ReturnType<typeof userRows>

/** Reads the user fields that the service adds to userinfo responses. */
export function userinfoReader(db: Database, { collection, userinfo }: ExtendedUsers) {
  const rows = resourceRows(db, collection.declaration)
  return async (id: number): Promise<Values> => {
    const row: Values = (await rows.find(id)) ?? {}
    const shown = userinfo.filter((field) => row[field] !== null && row[field] !== undefined)
    return Object.fromEntries(shown.map((field) => [field, row[field]]))
  }
}

/** Reads users with the fields and roles that the service adds. */
export function extendedUserReader({ reserved }: Database, { collection, fields }: ExtendedUsers): ReadUser {
  const rows = resourceRows(reserved, collection.declaration)
  return async (id) => {
    const accounts = reserved.read.selectFrom('accounts').select('role').where('userId', '=', id)
    const [row, account] = await Promise.all([rows.find(id), accounts.executeTakeFirst()])
    if (row === undefined) return undefined
    const added = fields.filter((field) => row[field] !== null).map((field) => [field, row[field]])
    const roles = [row.role, account?.role].filter((role) => typeof role === 'string')
    const { name, email } = row as { name?: unknown; email?: unknown }
    return {
      ...Object.fromEntries(added),
      ...{ id, name: String(name), email: String(email), role: roles[0] ?? null, roles },
    }
  }
}
