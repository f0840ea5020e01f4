import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { keepPrivate } from '../private-files.ts'
import { writeFileAtomically } from '../storage/files/atomic-file.ts'
import type { Config } from './config.ts'

const keyBytes = 32

/**
 * The key that encrypts secrets at rest: the given one, or the one in `folder`, created on the first run with mode 0600.
 * Throws `ConfigError` in production if others can read it and that cannot be changed.
 */
export function masterKey({ storage, production }: Config, folder: string): Buffer {
  const { masterKey: given } = storage
  if (given !== null) return Buffer.from(given, given.length === keyBytes * 2 ? 'hex' : 'base64')
  const path = join(folder, 'master.key')
  if (!existsSync(path))
    writeFileAtomically(path, randomBytes(keyBytes).toString('base64'), { mode: 0o600, replace: false })
  keepPrivate(production, path)
  const key = Buffer.from(readFileSync(path, 'utf8').trim(), 'base64')
  if (key.length !== keyBytes) throw new Error(`${path} does not hold a key of ${keyBytes} bytes`)
  return key
}
