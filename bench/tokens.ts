import { createPublicKey, type JsonWebKey } from 'node:crypto'
import { resolve } from 'node:path'
import { freePort } from '../src/start.ts'
import type { Bench, Measurement } from './bench.ts'
import { drive } from './drive.ts'
import { pinned, serverCore } from './machine.ts'
import { withRatio } from './measured.ts'
import { forgetPeak, memoryOf } from './memory.ts'
import { inTurns } from './requests.ts'
import { client } from './service.ts'
import { answerOf, proxied, requestText, type Target } from './target.ts'
import { environment, profiling, startReady } from './workplace.ts'

const program = resolve(import.meta.dirname, 'bare-provider.ts')

/** Access tokens by client credentials, against `oidc-provider` that keeps what it knows in memory. */
export const tokenRow: Measurement = {
  name: 'token',
  measure: async (bench) => {
    const about = { name: 'token', title: 'POST /oauth/token, client_credentials', floor: 0.9 }
    if (bench.options.tls) return { ...about, skipped: 'the reference speaks plain HTTP only' }
    const { service, place } = bench
    const { child, reference } = await startProvider(bench)
    forgetPeak(service.pid)
    const rounds = await inTurns(bench, about.title, { reference, service }, (target, seconds) =>
      runOnce(bench, target, seconds),
    )
    await place.stop(child)
    return withRatio({
      ...{ ...about, rounds, memory: memoryOf(service.pid) },
      ...{ unit: 'requests' as const, reference: 'oidc-provider in memory' },
    })
  },
}

function runOnce({ options, place, pin }: Bench, { port, tls, pid }: Target, seconds: number) {
  const credentials = Buffer.from(`${client.id}:${client.secret}`).toString('base64')
  const headers = { authorization: `Basic ${credentials}`, 'content-type': 'application/x-www-form-urlencoded' }
  const form = 'grant_type=client_credentials&scope=products%3Awrite%20reports%3Aread'
  const requests = [requestText('POST', '/oauth/token', { ...proxied(tls), ...headers }, form)]
  const { connections } = options
  return drive(place, pin, { port, tls, requests, connections, warmSeconds: 0.5, seconds, serverPid: pid }, 200)
}

async function startProvider({ options, place, pin, service }: Bench) {
  const port = await freePort()
  const bits = await modulusBits(service)
  const settings = { BARE_PORT: `${port}`, BARE_BITS: `${bits}`, BARE_CLIENT: client.id, BARE_SECRET: client.secret }
  const command = pinned(pin, serverCore, [process.execPath, program])
  // What it says is about settings that a real one needs.
  const env = { ...environment(settings), ...(options.profile && profiling('reference')) }
  const child = await startReady(place, command, env, 'ignore')
  const reference: Target = { name: 'reference', pid: child.pid as number, port, tls: false }
  return { child, reference }
}

/** The size of the service's own RSA keys. */
async function modulusBits(service: Target): Promise<number> {
  const { body } = await answerOf(service, 200, { method: 'GET', path: '/oauth/jwks' })
  const [key] = (JSON.parse(body) as { keys: JsonWebKey[] }).keys
  const bits = createPublicKey({ key: key as JsonWebKey, format: 'jwk' }).asymmetricKeyDetails?.modulusLength
  if (bits === undefined) throw new Error('The service signs with another kind of key')
  return bits
}
