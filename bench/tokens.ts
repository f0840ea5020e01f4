import { createPublicKey, type JsonWebKey } from 'node:crypto'
import { tokenVerifier } from '../src/oauth/tokens/verify.ts'
import { freePort } from '../src/serving/listeners.ts'
import { openDatabase } from '../src/storage/open.ts'
import type { Bench, Measurement } from './bench.ts'
import { memoryOf, pinned, resetPeak, serverCore } from './cpu-and-memory.ts'
import { expectResponse, proxied, requestText, type Target } from './http.ts'
import { alternate } from './requests.ts'
import { withRatio } from './results.ts'
import { environment, profiling, runLoad, startReady } from './sandbox.ts'
import { client, referenceProgram } from './service.ts'

const maxUs = 5
const tokens = 1_000
const calls = 500_000

/** Measures client-credentials token requests, compared with `oidc-provider` and its in-memory adapter. */
export const tokenRow: Measurement = {
  name: 'token',
  measure: async (bench) => {
    const about = { name: 'token', title: 'POST /oauth/token, client_credentials', floor: 0.9 }
    if (bench.options.tls) return { ...about, skipped: 'the reference supports plain HTTP only' }
    const { service, sandbox } = bench
    const { child, reference } = await startProvider(bench)
    resetPeak(service.pid)
    const rounds = await alternate(bench, about.title, { reference, service }, (target, seconds) =>
      runOnce(bench, target, seconds),
    )
    await sandbox.stop(child)
    return withRatio({
      ...{ ...about, rounds, memory: memoryOf(service.pid) },
      ...{ unit: 'requests' as const, reference: 'oidc-provider in memory' },
    })
  },
}

function runOnce({ options, sandbox, pin }: Bench, { port, tls, pid }: Target, seconds: number) {
  const credentials = Buffer.from(`${client.id}:${client.secret}`).toString('base64')
  const headers = { authorization: `Basic ${credentials}`, 'content-type': 'application/x-www-form-urlencoded' }
  const form = 'grant_type=client_credentials&scope=products%3Awrite%20reports%3Aread'
  const requests = [requestText('POST', '/oauth/token', { ...proxied(tls), ...headers }, form)]
  const { connections } = options
  return runLoad(sandbox, pin, { port, tls, requests, connections, warmSeconds: 0.5, seconds, serverPid: pid }, [200])
}

async function startProvider({ options, sandbox, pin, service }: Bench) {
  const port = await freePort()
  const bits = await modulusBits(service)
  const settings = { BARE_PORT: `${port}`, BARE_BITS: `${bits}`, BARE_CLIENT: client.id, BARE_SECRET: client.secret }
  const command = pinned(pin, serverCore, [process.execPath, referenceProgram, 'oidc-provider'])
  // The reference's output contains only warnings about settings that a real server would need.
  const env = { ...environment(settings), ...(options.profile && profiling('reference')) }
  const child = await startReady(sandbox, command, env, 'ignore')
  const reference: Target = { name: 'reference', pid: child.pid as number, port, tls: false }
  return { child, reference }
}

/** Returns the service's RSA key size in bits. */
async function modulusBits(service: Target): Promise<number> {
  const { body } = await expectResponse(service, 200, { method: 'GET', path: '/oauth/jwks' })
  const [key] = (JSON.parse(body) as { keys: JsonWebKey[] }).keys
  const bits = createPublicKey({ key: key as JsonWebKey, format: 'jwk' }).asymmetricKeyDetails?.modulusLength
  if (bits === undefined) throw new Error('The service does not sign with an RSA key')
  return bits
}

/** Measures only the verification of a cached token, which must not take more than 5 µs. */
export const cachedTokenRow: Measurement = {
  name: 'remembered-token',
  measure: async (bench) => {
    const about = { name: 'remembered-token', title: 'Verification of a cached token', floor: 1, reference: '5 µs' }
    const { verify, known, close } = await warmVerifier(bench)
    const rounds = []
    for (let round = 1; round <= bench.options.rounds; round++) {
      const serverUs = timeOf(verify, known)
      bench.say(`  ${round} service   ${serverUs.toFixed(3)} µs each`)
      rounds.push({ reference: side(maxUs), service: side(serverUs) })
    }
    await close()
    return withRatio({ ...about, unit: 'calls' as const, rounds, memory: memoryOf(bench.service.pid) })
  },
}

const side = (serverUs: number) => ({ perSecond: 1_000_000 / serverUs, serverUs, serverShare: 1 })

/** Creates a verifier with the service's keys and database, and a thousand cached tokens. */
async function warmVerifier({ service }: Bench) {
  const { body } = await expectResponse(service, 200, { method: 'GET', path: '/oauth/jwks' })
  const { keys } = JSON.parse(body) as { keys: (JsonWebKey & { kid: string })[] }
  const publicKeys = new Map(keys.map((key) => [key.kid, createPublicKey({ key, format: 'jwk' })]))
  const db = await openDatabase(`file:${service.databaseFile}`)
  const known = await Promise.all(Array.from({ length: tokens }, () => service.token()))
  const { iss } = JSON.parse(Buffer.from(known[0]?.split('.')[1] as string, 'base64url').toString()) as { iss: string }
  const verify = tokenVerifier({ db, keys: { publicKeys }, issuer: iss, audience: iss, now: Date.now })
  for (const token of known) {
    const verification = await verify(token)
    if (!('caller' in verification)) throw new Error('A token of the service was rejected')
  }
  return { verify, known, close: () => db.close() }
}

/** Returns the time per call in µs; throws if a token was not in the cache. */
function timeOf(verify: ReturnType<typeof tokenVerifier>, known: readonly string[]): number {
  // As in a real request, each token is a new string made from bytes, without a cached hash.
  const received = known.map((token) => Buffer.from(token))
  let us = 0
  for (let call = 0; call < calls; call += known.length) {
    const texts = received.map((bytes) => bytes.toString('latin1'))
    const start = performance.now()
    for (const text of texts) {
      if (verify(text) instanceof Promise) throw new Error('A cached token was looked up')
    }
    us += (performance.now() - start) * 1_000
  }
  return us / calls
}
