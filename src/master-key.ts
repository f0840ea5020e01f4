import { randomBytes } from 'node:crypto'
import { closeSync, existsSync, fsyncSync, linkSync, openSync, readFileSync, unlinkSync, writeSync } from 'node:fs'
import { join } from 'node:path'

const keyBytes = 32

/** The key that seals secrets at rest: the given one, or the one kept in `folder`, made on first run with mode 0600. */
export function masterKey(given: string | null, folder: string): Buffer {
  if (given !== null) return Buffer.from(given, given.length === keyBytes * 2 ? 'hex' : 'base64')
  const path = join(folder, 'master.key')
  if (!existsSync(path)) place(path, randomBytes(keyBytes).toString('base64'))
  const key = Buffer.from(readFileSync(path, 'utf8').trim(), 'base64')
  if (key.length !== keyBytes) throw new Error(`${path} does not hold a key of ${keyBytes} bytes`)
  return key
}

/** Writes a file whole or not at all; of two processes that try at once the first wins. */
function place(path: string, text: string): void {
  const temporary = `${path}.${process.pid}`
  const file = openSync(temporary, 'w', 0o600)
  writeSync(file, text)
  fsyncSync(file)
  closeSync(file)
  try {
    linkSync(temporary, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    unlinkSync(temporary)
  }
}
