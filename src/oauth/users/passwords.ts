import { type Argon2Parameters, argon2, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { Problem } from '../../http/problems/problem.ts'

/** The cost of a hash: memory in KiB, passes, parallelism (RFC 9106 §4). */
export interface PasswordCost {
  memory: number
  passes: number
  parallelism: number
}

/** Hashes and verifies passwords. Throws SERVICE_UNAVAILABLE if too many hashes are already waiting. */
export interface Passwords {
  hash: (password: string) => Promise<string>
  /** Verifies a password. If `stored` is null, returns false, but takes as long as checking a stored hash. */
  verify: (password: string, stored: string | null) => Promise<boolean>
  /** Returns whether a stored hash was computed with a cost other than the current one. */
  isOutdated: (stored: string) => boolean
}

/** A hash takes 127 ms and 64 MiB on a two-core machine from 2026; OWASP recommends at least 46 MiB in one pass. */
export const defaultCost: PasswordCost = { memory: 65_536, passes: 3, parallelism: 1 }

const atOnceLimit = 4
const waitingLimit = 32
const saltBytes = 16
const tagBytes = 32
const format = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/
const derive = promisify(argon2) as (algorithm: 'argon2id', parameters: Argon2Parameters) => Promise<Buffer>

/**
 * Creates the password hasher, which uses argon2id with a random salt and returns PHC strings. Call once per thread;
 * `threads` is the number of threads that share the limits of the process.
 */
export function passwords(
  random: (size: number) => Uint8Array,
  cost: PasswordCost = defaultCost,
  threads = 1,
): Passwords {
  const shareOf = (limit: number) => Math.max(1, Math.floor(limit / threads))
  const limited = limiter(shareOf(atOnceLimit), shareOf(waitingLimit))
  const tagOf = (
    message: string,
    nonce: Uint8Array,
    { memory, passes, parallelism }: PasswordCost,
    tagLength: number,
  ) => limited(() => derive('argon2id', { message, nonce, memory, passes, parallelism, tagLength }))
  const dummyHash = phcString(cost, random(saltBytes), random(tagBytes))
  return {
    hash: async (password) => {
      const salt = random(saltBytes)
      return phcString(cost, salt, await tagOf(password, salt, cost, tagBytes))
    },
    verify: async (password, stored) => {
      const { salt, tag, ...its } = read(stored ?? dummyHash)
      const same = timingSafeEqual(await tagOf(password, salt, its, tag.length), tag)
      return same && stored !== null
    },
    isOutdated: (stored) => {
      const { memory, passes, parallelism } = read(stored)
      return memory !== cost.memory || passes !== cost.passes || parallelism !== cost.parallelism
    },
  }
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64').replace(/=+$/, '')

const phcString = ({ memory, passes, parallelism }: PasswordCost, salt: Uint8Array, tag: Uint8Array) =>
  `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(salt)}$${base64(tag)}`

function read(stored: string) {
  const [, memory, passes, parallelism, salt = '', tag = ''] = format.exec(stored) ?? []
  if (tag === '') throw new Error('A stored password hash is not a valid argon2id PHC string')
  const bytes = { salt: Buffer.from(salt, 'base64'), tag: Buffer.from(tag, 'base64') }
  return { memory: Number(memory), passes: Number(passes), parallelism: Number(parallelism), ...bytes }
}

/** Limits how many hashes run and wait, because each running hash occupies a core and its memory (T-AUTH-02). */
function limiter(atOnce: number, maxWaiting: number) {
  const waiting: (() => void)[] = []
  let running = 0
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running >= atOnce) {
      if (waiting.length >= maxWaiting) {
        throw new Problem('SERVICE_UNAVAILABLE', 'Too many logins are in progress; try again in 2 seconds', {
          headers: { 'retry-after': '2' },
        })
      }
      // A finished hash hands its slot to the next waiting hash, so that the slot never counts as free in between.
      await new Promise<void>((resolve) => waiting.push(resolve))
    } else running++
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else running--
    }
  }
}
