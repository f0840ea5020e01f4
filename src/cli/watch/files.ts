import { createHash } from 'node:crypto'
import { existsSync, type FSWatcher, readFileSync, statSync, watch } from 'node:fs'
import { basename, dirname, join } from 'node:path'

/** How long to wait after a change, because editors save a file in several steps. */
const pauseMs = 40

/** Watches files for changes to their content. */
export interface WatchedFiles {
  /** Starts watching more files, which need not exist. */
  add: (files: readonly string[]) => void
  /** Resolves to the base names of changed files once there are any, or to an empty list after `close`. */
  changed: () => Promise<string[]>
  close: () => void
}

/**
 * Returns a watcher. It watches folders, because editors replace files instead of changing them. `later` sets a timer.
 */
export function watchFiles(later: (ms: number, run: () => void) => () => void): WatchedFiles {
  const digests = new Map<string, string | null>()
  const folders = new Map<string, FSWatcher>()
  let wake = () => {}
  let cancel = () => {}
  let isClosed = false
  const changes = () => [...digests.keys()].filter((file) => digestOf(file) !== digests.get(file))
  const touch = () => {
    cancel()
    cancel = later(pauseMs, () => wake())
  }
  const watchFolder = (folder: string) => {
    if (folders.has(folder) || !existsSync(folder)) return
    const watcher = watch(folder, (_, name) => (name === null || digests.has(join(folder, name))) && touch())
    // The folder was removed. It is watched again when one of its files is passed to `add`.
    watcher.on('error', () => folders.delete(folder))
    folders.set(folder, watcher)
  }
  return {
    add: (files) => {
      for (const file of files) {
        if (!digests.has(file)) digests.set(file, digestOf(file))
        watchFolder(dirname(file))
      }
    },
    changed: async () => {
      for (;;) {
        const names = isClosed ? [] : changes()
        for (const file of names) digests.set(file, digestOf(file))
        if (names.length > 0 || isClosed) return names.map((file) => basename(file))
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    },
    close: () => {
      isClosed = true
      cancel()
      for (const watcher of folders.values()) watcher.close()
      wake()
    },
  }
}

/** Returns a digest of a file's content; null if there is no such file. */
function digestOf(file: string): string | null {
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return null
  return createHash('sha256').update(readFileSync(file)).digest('base64')
}
