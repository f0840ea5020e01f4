import { lockSqlite } from './sqlite/lock.ts'

/**
 * Keeps every process from serving a database until the returned function is called. Throws `DatabaseInUse`, which names the
 * processes that serve it.
 */
export async function excludeNodes(url: string, now: () => number): Promise<() => unknown> {
  const unlock = lockSqlite(url, now)
  return unlock ?? (await import('./postgres/nodes.ts')).excludeNodes(url)
}
