/** A message from the supervisor. A socket is sent along with `connection`. */
export type ToProcess =
  | { event: 'load' | 'close' | 'connection' }
  /** `isFirst` is true until a service has started. */
  | { event: 'serve'; isFirst: boolean }

/**
 * A message from the serving process. `imported` lists the definition's files, even if loading fails. After `closed`,
 * another process may open the database.
 */
export type FromProcess = { event: 'imported'; files: string[] } | { event: 'loaded' | 'ready' | 'closed' }
