import { spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * The folder that contains PostgreSQL's programs: '' if they are in PATH, otherwise that of the newest version in
 * /usr/lib/postgresql; undefined if PostgreSQL is not installed.
 */
const folder = foundFolder()

export const hasPostgresPrograms = folder !== undefined

/** Returns the path of a PostgreSQL program such as `initdb`. Throws if PostgreSQL is not installed. */
export function postgresProgram(name: string): string {
  if (folder === undefined)
    throw new Error('PostgreSQL is not installed: there is no initdb in PATH or /usr/lib/postgresql')
  return join(folder, name)
}

const isRoot = process.getuid?.() === 0

/**
 * Returns the command and arguments for running a program as the user `postgres` if this process is root, because
 * PostgreSQL refuses to run as root.
 */
export const asPostgres = (command: string, ...args: string[]): [command: string, ...args: string[]] =>
  isRoot
    ? ['setpriv', '--reuid', 'postgres', '--regid', 'postgres', '--init-groups', command, ...args]
    : [command, ...args]

/** Makes the user `postgres` the owner of a file or folder if this process is root. */
export function giveToPostgres(path: string): void {
  if (!isRoot) return
  const { status, stderr } = spawnSync('chown', ['postgres:postgres', path])
  if (status !== 0) throw new Error(String(stderr))
}

function foundFolder(): string | undefined {
  if (spawnSync('initdb', ['--version']).status === 0) return ''
  const found = globSync('/usr/lib/postgresql/*/bin/initdb')
  const newest = found.toSorted((one, other) => one.localeCompare(other, 'en', { numeric: true })).at(-1)
  return newest && dirname(newest)
}
