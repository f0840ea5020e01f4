/** Returns the path of a SQLite file given as a `file:` URL or a path; null for a PostgreSQL URL. */
export const sqlitePath = (url: string): string | null =>
  /^postgres(ql)?:/.test(url) ? null : url.replace(/^(sqlite|file):(\/\/(?=\/))?/, '')

/** Returns the path of the file that contains a database's text index. */
export const indexPathOf = (path: string): string => `${path}-search`
