import { chmodSync, type Stats, statSync } from 'node:fs'
import { ConfigError } from './startup-errors.ts'

const ofOthers = 0o077
const sticky = 0o1000

/**
 * Removes all permissions of group and others from the service's files and folders, as far as they exist. Throws
 * `ConfigError` in production for the first one where that fails, such as another user's, or one on a volume without
 * permissions.
 */
export function keepPrivate(production: boolean, ...paths: string[]): void {
  for (const path of paths) {
    const stats = openToOthers(path)
    if (stats === undefined) continue
    const why = tightened(path, stats)
    if (why === undefined || !production) continue
    const mode = (stats.mode & 0o7777).toString(8).padStart(4, '0')
    const remedy = stats.isDirectory() ? 'take a folder of its own, or' : 'make it the own file of the service, or'
    throw new ConfigError(
      `${path} is open to others than its owner (mode ${mode}), which cannot be changed (${why}): ${remedy} ` +
        `chmod ${stats.isDirectory() ? '700' : '600'} ${path}`,
    )
  }
}

/** Undefined if others have no permission, or nothing exists there. Windows has no such permissions. */
function openToOthers(path: string): Stats | undefined {
  const stats = statSync(path, { throwIfNoEntry: false })
  const isOpen = stats !== undefined && (stats.mode & ofOthers) !== 0
  return isOpen && process.platform !== 'win32' ? stats : undefined
}

/** Why it failed; undefined on success. Leaves a folder shared by everyone, such as /tmp, unchanged. */
function tightened(path: string, { mode }: Stats): string | undefined {
  if ((mode & sticky) !== 0) return 'it is a folder for everybody'
  try {
    chmodSync(path, mode & 0o700)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code
  }
  return openToOthers(path) && 'its file system keeps no rights'
}
