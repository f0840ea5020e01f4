import { chmodSync, type Stats, statSync } from 'node:fs'
import { ConfigError } from './startup-errors.ts'

const ofOthers = 0o077
const sticky = 0o1000

/**
 * Removes the permissions of group and others from the service's existing files and folders. In production, throws
 * `ConfigError` for the first path whose permissions cannot be changed, for example because another user owns it or the
 * file system has no permissions.
 */
export function keepPrivate(production: boolean, ...paths: string[]): void {
  for (const path of paths) {
    const stats = openToOthers(path)
    if (stats === undefined) continue
    const why = makePrivate(path, stats)
    if (why === undefined || !production) continue
    const mode = (stats.mode & 0o7777).toString(8).padStart(4, '0')
    const remedy = stats.isDirectory() ? 'use a folder of its own, or run' : 'make the service own the file, or run'
    throw new ConfigError(
      `${path} is accessible to users other than its owner (mode ${mode}), and its permissions cannot be changed ` +
        `(${why}): ${remedy} chmod ${stats.isDirectory() ? '700' : '600'} ${path}`,
    )
  }
}

/** Returns the stats of a path that others can access; undefined for any other path, and always on Windows. */
function openToOthers(path: string): Stats | undefined {
  const stats = statSync(path, { throwIfNoEntry: false })
  const isOpen = stats !== undefined && (stats.mode & ofOthers) !== 0
  return isOpen && process.platform !== 'win32' ? stats : undefined
}

/**
 * Returns why the permissions could not be removed; undefined on success. Does not change directories that have the
 * sticky bit, such as /tmp.
 */
function makePrivate(path: string, { mode }: Stats): string | undefined {
  if ((mode & sticky) !== 0) return 'it is a folder shared by all users'
  try {
    chmodSync(path, mode & 0o700)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code
  }
  return openToOthers(path) && 'its file system does not store permissions'
}
