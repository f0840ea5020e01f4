import { createPublicKey, type JsonWebKey } from 'node:crypto'
import { tokenVerifier } from '../src/oauth/tokens/verify.ts'
import { openDatabase } from '../src/storage/open.ts'
import type { Bench, Measurement } from './bench.ts'
import { withRatio } from './measured.ts'
import { memoryOf } from './memory.ts'
import { answerOf } from './target.ts'

const maxUs = 5
const tokens = 1_000
const calls = 500_000

/** What the service does for a token that it has seen before, measured alone: the floor is 5 µs. */
export const rememberedRow: Measurement = {
  name: 'remembered-token',
  measure: async (bench) => {
    const about = { name: 'remembered-token', title: 'A remembered token, judged', floor: 1, reference: '5 µs' }
    const { verify, known, close } = await remembering(bench)
    const rounds = []
    for (let round = 1; round <= bench.options.rounds; round++) {
      const serverUs = measure(verify, known)
      bench.say(`  ${round} service   ${serverUs.toFixed(3)} µs each`)
      rounds.push({ reference: side(maxUs), service: side(serverUs) })
    }
    await close()
    return withRatio({ ...about, unit: 'calls' as const, rounds, memory: memoryOf(bench.service.pid) })
  },
}

const side = (serverUs: number) => ({ perSecond: 1_000_000 / serverUs, serverUs, serverShare: 1 })

/** A judge of the service's tokens on the service's own keys and database, which has seen a thousand of them. */
async function remembering({ service }: Bench) {
  const { body } = await answerOf(service, 200, { method: 'GET', path: '/oauth/jwks' })
  const { keys } = JSON.parse(body) as { keys: (JsonWebKey & { kid: string })[] }
  const publicKeys = new Map(keys.map((key) => [key.kid, createPublicKey({ key, format: 'jwk' })]))
  const db = await openDatabase(`file:${service.databaseFile}`)
  const known = await Promise.all(Array.from({ length: tokens }, () => service.token()))
  const { iss } = JSON.parse(Buffer.from(known[0]?.split('.')[1] as string, 'base64url').toString()) as { iss: string }
  const verify = tokenVerifier({ db, keys: { publicKeys }, issuer: iss, audience: iss, now: Date.now })
  for (const token of known) {
    const verification = await verify(token)
    if (!('caller' in verification)) throw new Error('A token of the service was refused')
  }
  return { verify, known, close: () => db.close() }
}

/** Microseconds of one call; throws when one had to look. */
function measure(verify: ReturnType<typeof tokenVerifier>, known: readonly string[]): number {
  // As they arrive: each text is a new one, made of bytes, with nothing worked out about it before.
  const arrived = known.map((token) => Buffer.from(token))
  let us = 0
  for (let call = 0; call < calls; call += known.length) {
    const texts = arrived.map((bytes) => bytes.toString('latin1'))
    const start = performance.now()
    for (const text of texts) {
      if (verify(text) instanceof Promise) throw new Error('A remembered token was looked up')
    }
    us += (performance.now() - start) * 1_000
  }
  return us / calls
}
