import { randomUUID } from 'node:crypto'
import { linkSync, renameSync, rmSync, writeFileSync } from 'node:fs'

/** Writes and syncs a file atomically. With `replace: false` an existing file stays, so the first writer wins. */
export function writeFileAtomically(file: string, text: string, options: { mode: number; replace: boolean }): void {
  const temporary = `${file}.${randomUUID()}.tmp`
  try {
    writeFileSync(temporary, text, { mode: options.mode, flag: 'wx', flush: true })
    if (options.replace) renameSync(temporary, file)
    else linkIfAbsent(temporary, file)
  } finally {
    rmSync(temporary, { force: true })
  }
}

function linkIfAbsent(from: string, to: string): void {
  try {
    linkSync(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
