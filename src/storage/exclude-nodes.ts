import { lockSqlite } from './sqlite/lock.ts'

/**
 * Prevents the service's processes from using a database until the returned function is called. Throws `DatabaseInUse`
 * with the names of the processes that are using it now.
 */
export async function excludeNodes(url: string, now: () => number): Promise<() => unknown> {
  const unlock = lockSqlite(url, now)
  return unlock ?? (await import('./postgres/nodes.ts')).excludePostgresNodes(url)
}
