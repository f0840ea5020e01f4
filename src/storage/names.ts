import type { Queryable } from './database.ts'
import { idOrNone } from './ids.ts'

/** Returns client names by id, including those of revoked clients; omits unknown ids. */
export async function clientNames(read: Queryable, ids: readonly string[]): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map()
  const rows = await read.selectFrom('clients').select(['id', 'name']).where('id', 'in', ids).execute()
  return new Map(rows.map(({ id, name }) => [id, name]))
}

/** Returns user names by id (as text); omits unknown ids. */
export async function userNames(read: Queryable, ids: readonly number[]): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map()
  const rows = await read.selectFrom('users').select(['id', 'name']).where('id', 'in', ids.map(idOrNone)).execute()
  return new Map(rows.map(({ id, name }) => [String(id), name]))
}
