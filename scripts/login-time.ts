/**
 * Tests whether the duration of a failed login reveals that an account exists (T-AUTH-03). Makes the same number of
 * attempts with a known and an unknown address, in random order, and compares their durations with the Mann-Whitney U
 * test. Use an idle machine:
 *
 *   node scripts/login-time.ts [attempts of each kind, default 500]
 *
 * Exits with 1 if the addresses can be distinguished (p <= 0.01).
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generator } from '../src/cli/demo/catalogue.ts'
import { addUser, openAccount, setPasswordHash } from '../src/oauth/users/accounts.ts'
import { createPasswordLogin } from '../src/oauth/users/login.ts'
import { loginTries } from '../src/oauth/users/login-throttle.ts'
import { passwords } from '../src/oauth/users/passwords.ts'
import { sealer as makeSealer } from '../src/storage/encryption.ts'
import { migrate } from '../src/storage/migrate.ts'
import { openDatabase } from '../src/storage/open.ts'

const tries = Number(process.argv[2] ?? 500)
const seed = 4711
const folder = mkdtempSync(join(tmpdir(), 'plinth-login-time-'))
const db = await openDatabase(`file:${join(folder, 'plinth.db')}`)
await migrate(db)
const hasher = passwords(randomBytes)
const hash = await hasher.hash('tundra violin marble')
await db.write(async (tx) => {
  for (let n = 0; n < 200; n++) await addUser(tx, 'Somebody', `somebody${n}@example.com`, Date.now())
  const id = await addUser(tx, 'Known', 'known@example.com', Date.now())
  await openAccount(tx, id, 'user', Date.now())
  await setPasswordHash(tx, id, hash, Date.now())
})
const sealer = makeSealer(randomBytes(32), randomBytes)
const limits = { perMinuteAndNetwork: Number.MAX_SAFE_INTEGER, perHourAndAccount: Number.MAX_SAFE_INTEGER, free: 1e9 }
const login = createPasswordLogin({
  ...{ db, sealer, passwords: hasher, random: randomBytes, now: Date.now },
  tries: loginTries(db, sealer, Date.now, limits),
})

const times: Record<'known' | 'nobody', number[]> = { known: [], nobody: [] }
const random = generator(seed)
const order = Array.from({ length: tries * 2 }, (_, n) => (n % 2 ? 'known' : 'nobody') as keyof typeof times)
for (let at = order.length - 1; at > 0; at--) {
  const other = Math.floor(random() * (at + 1))
  ;[order[at], order[other]] = [order[other] as 'known', order[at] as 'known']
}
for (const kind of order) {
  const start = performance.now()
  await login({ email: `${kind}@example.com`, password: 'wrong password here', address: '192.0.2.1' })
  times[kind].push(performance.now() - start)
}
await db.close()
rmSync(folder, { recursive: true })

/** Returns the two-sided p-value of the Mann-Whitney U test, by the normal approximation. */
function mannWhitney(one: number[], other: number[]): number {
  const all = [...one.map((time) => ({ time, first: true })), ...other.map((time) => ({ time, first: false }))]
  const ranks = all.sort((a, b) => a.time - b.time).map(({ first }, index) => (first ? index + 1 : 0))
  const u = ranks.reduce((sum, rank) => sum + rank, 0) - (one.length * (one.length + 1)) / 2
  const mean = (one.length * other.length) / 2
  const deviation = Math.sqrt((one.length * other.length * (one.length + other.length + 1)) / 12)
  return 2 * (1 - normal(Math.abs(u - mean) / deviation))
}

/** Approximates the cumulative distribution function of the normal distribution (Abramowitz and Stegun 26.2.17). */
function normal(z: number): number {
  const t = 1 / (1 + 0.2316419 * z)
  const tail = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
  return 1 - (Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)) * tail
}

const median = (list: number[]) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0
const p = mannWhitney(times.known, times.nobody)
process.stdout.write(
  `known ${median(times.known).toFixed(2)} ms, unknown ${median(times.nobody).toFixed(2)} ms (medians of ${tries}), p = ${p.toFixed(4)}\n`,
)
process.exitCode = p <= 0.01 ? 1 : 0
