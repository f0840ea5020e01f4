import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { placeFile } from './place-file.ts'

const keyBytes = 32

/** The key that seals secrets at rest: the given one, or the one kept in `folder`, made on first run with mode 0600. */
export function masterKey(given: string | null, folder: string): Buffer {
  if (given !== null) return Buffer.from(given, given.length === keyBytes * 2 ? 'hex' : 'base64')
  const path = join(folder, 'master.key')
  if (!existsSync(path)) placeFile(path, randomBytes(keyBytes).toString('base64'), { mode: 0o600, replace: false })
  const key = Buffer.from(readFileSync(path, 'utf8').trim(), 'base64')
  if (key.length !== keyBytes) throw new Error(`${path} does not hold a key of ${keyBytes} bytes`)
  return key
}
