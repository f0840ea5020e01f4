import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { errorField } from '../engine.ts'
import { readOnlyLocation, sqlitePath } from './path.ts'

/** Thrown at startup if the SQLite file is damaged. Nothing has been written to it. */
export class DatabaseDamaged extends Error {
  override name = 'DatabaseDamaged'
  readonly exitCode = 2

  constructor(path: string, check: string, found: string) {
    super(`${path} is damaged (${check}: ${found}): nothing was written to it; restore a backup or repair a copy`)
  }
}

const [sqliteCorrupt, sqliteNotADatabase] = [11, 26]
const damageCodes = new Set([sqliteCorrupt, sqliteNotADatabase])

/** Returns true for SQLITE_CORRUPT and SQLITE_NOTADB: the file contains something that SQLite did not write. */
export const isDamage = (error: unknown): boolean => damageCodes.has(Number(errorField(error, 'errcode')) & 0xff)

const signature = 'SQLite format 3\0'
/** Checking a larger file would delay startup by more than half a second. */
const maxCheckedBytes = 256 * 1_048_576

/**
 * Checks the SQLite file of a database URL, if it exists, through a read-only connection. Throws `DatabaseDamaged` if
 * it is not a SQLite database or, up to 256 MiB, if `pragma quick_check` finds a damaged page. Does nothing for
 * PostgreSQL. Call it before this process opens the database, because closing the file releases all of the process's
 * locks on it (POSIX fcntl).
 */
export function refuseDamage(url: string): void {
  const path = sqlitePath(url)
  const bytes = path === null ? 0 : (statSync(path, { throwIfNoEntry: false })?.size ?? 0)
  if (path === null || bytes === 0) return
  if (headOf(path) !== signature) throw new DatabaseDamaged(path, 'header', 'it is not a SQLite database')
  const check = bytes > maxCheckedBytes ? 'schema_version' : 'quick_check(1)'
  const found = resultOf(path, check)
  if (typeof found === 'string' && found !== 'ok') throw new DatabaseDamaged(path, check, found.replaceAll('\n', ' '))
}

function headOf(path: string): string {
  const file = openSync(path, 'r')
  try {
    const head = Buffer.alloc(signature.length)
    readSync(file, head, 0, head.length, 0)
    return head.toString('latin1')
  } finally {
    closeSync(file)
  }
}

/** Returns the first value of a pragma, or the message of the error that a damaged page causes. */
function resultOf(path: string, pragma: string): unknown {
  const db = new DatabaseSync(readOnlyLocation(path), { readOnly: true, timeout: 5_000 })
  try {
    return Object.values(db.prepare(`pragma ${pragma}`).get() ?? {})[0]
  } catch (error) {
    if (isDamage(error)) return String(errorField(error, 'message'))
    throw error
  } finally {
    db.close()
  }
}

/** Records the first damaged page that a statement encounters. */
export interface DamageGuard {
  /** Throws the recorded error, so that nothing is written to a damaged file. */
  refuse: () => void
  isDamaged: () => boolean
  /** Records the error if it reports damage, and rethrows it. */
  rethrow: (error: unknown) => never
}

/** The memory that tells the threads of a process about damage. */
export const damageMemory = (): SharedArrayBuffer => new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)

/** Creates the guard of an open file. `onDamage` is called at most once, in the first thread that finds damage. */
export function damageGuard(onDamage: (error: unknown) => void, memory = damageMemory()): DamageGuard {
  const found = new Int32Array(memory)
  const isDamaged = () => Atomics.load(found, 0) === 1
  let damage: unknown = Object.assign(new Error('Another thread found a damaged page'), { errcode: sqliteCorrupt })
  return {
    refuse: () => {
      if (isDamaged()) throw damage
    },
    isDamaged,
    rethrow: (error) => {
      if (isDamage(error)) {
        damage = error
        if (Atomics.exchange(found, 0, 1) === 0) onDamage(error)
      }
      throw error
    },
  }
}
