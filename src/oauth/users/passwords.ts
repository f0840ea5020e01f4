import { type Argon2Parameters, argon2, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { Problem } from '../../http/problems/problem.ts'

/** Cost of a hash: memory in KiB, passes, parallelism (RFC 9106 §4). */
export interface PasswordCost {
  memory: number
  passes: number
  parallelism: number
}

/** Hashes and verifies passwords. Throws SERVICE_UNAVAILABLE if too many are waiting already. */
export interface Passwords {
  hash: (password: string) => Promise<string>
  /** False for every password if `kept` is null, after the same time. */
  verify: (password: string, kept: string | null) => Promise<boolean>
  /** Whether a stored hash has a cost other than the current one. */
  isOutdated: (kept: string) => boolean
}

/** 127 ms and 64 MiB on two cores of 2026; OWASP recommends at least 46 MiB in one pass. */
export const defaultCost: PasswordCost = { memory: 65_536, passes: 3, parallelism: 1 }

const atOnceLimit = 4
const waitingLimit = 32
const saltBytes = 16
const tagBytes = 32
const format = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/
const derive = promisify(argon2) as (algorithm: 'argon2id', parameters: Argon2Parameters) => Promise<Buffer>

/** Creates the password hasher, one per process: argon2id with a random salt, stored as a PHC string. */
export function passwords(random: (size: number) => Uint8Array, cost: PasswordCost = defaultCost): Passwords {
  const inTurn = turns(atOnceLimit, waitingLimit)
  const tagOf = (
    message: string,
    nonce: Uint8Array,
    { memory, passes, parallelism }: PasswordCost,
    tagLength: number,
  ) => inTurn(() => derive('argon2id', { message, nonce, memory, passes, parallelism, tagLength }))
  const nobodys = written(cost, random(saltBytes), random(tagBytes))
  return {
    hash: async (password) => {
      const salt = random(saltBytes)
      return written(cost, salt, await tagOf(password, salt, cost, tagBytes))
    },
    verify: async (password, kept) => {
      const { salt, tag, ...its } = read(kept ?? nobodys)
      const same = timingSafeEqual(await tagOf(password, salt, its, tag.length), tag)
      return same && kept !== null
    },
    isOutdated: (kept) => {
      const { memory, passes, parallelism } = read(kept)
      return memory !== cost.memory || passes !== cost.passes || parallelism !== cost.parallelism
    },
  }
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64').replace(/=+$/, '')

const written = ({ memory, passes, parallelism }: PasswordCost, salt: Uint8Array, tag: Uint8Array) =>
  `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(salt)}$${base64(tag)}`

function read(kept: string) {
  const [, memory, passes, parallelism, salt = '', tag = ''] = format.exec(kept) ?? []
  if (tag === '') throw new Error('A kept password hash cannot be read')
  const bytes = { salt: Buffer.from(salt, 'base64'), tag: Buffer.from(tag, 'base64') }
  return { memory: Number(memory), passes: Number(passes), parallelism: Number(parallelism), ...bytes }
}

/** Limits concurrent and waiting hashes: each one takes a core and its memory (T-AUTH-02). */
function turns(atOnce: number, waitingMost: number) {
  const waiting: (() => void)[] = []
  let running = 0
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running >= atOnce) {
      if (waiting.length >= waitingMost) {
        throw new Problem('SERVICE_UNAVAILABLE', 'Too many are logging in now', { headers: { 'retry-after': '2' } })
      }
      // A finished hash passes its slot to the next waiting one, so that it is never counted as free in between.
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
