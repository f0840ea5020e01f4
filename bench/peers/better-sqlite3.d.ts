/** The package has no types of its own; the peer uses only what it has in common with `node:sqlite`. */
declare module 'better-sqlite3' {
  export { DatabaseSync as default } from 'node:sqlite'
}
