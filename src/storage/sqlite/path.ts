import { existsSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

/** Returns the path of a SQLite file given as a `file:` URL or a path; null for a PostgreSQL URL. */
export const sqlitePath = (url: string): string | null =>
  /^postgres(ql)?:/.test(url) ? null : url.replace(/^(sqlite|file):(\/\/(?=\/))?/, '')

/** Returns the path of the file that contains a database's text index. */
export const indexPathOf = (path: string): string => `${path}-search`

/**
 * Returns the location to open for reading a SQLite file. If there is no `-wal` file, no process has the database open.
 * The file is then opened as immutable, because SQLite would otherwise create the files of the write-ahead log.
 */
export const readOnlyLocation = (path: string): string =>
  existsSync(`${path}-wal`) ? path : `${pathToFileURL(path)}?immutable=1`
