import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { getCACertificates } from 'node:tls'
import { builtIn } from '../built-in.ts'
import type { Config } from '../config.ts'
import { freePort } from '../free-port.ts'
import { type Service, startService } from '../start.ts'
import { type Address, client, jsonOf, type Send } from './api.ts'
import type { Defer } from './ending.ts'
import type { Tell } from './screen.ts'

/** A service to show, and the one started for it, if none was running. */
export interface Reached {
  send: Send
  address: Address
  own: Service | null
}

const probeMs = 5_000

/**
 * Finds the service of these settings running, or starts it in this process. Throws when something else has its port.
 */
export async function reach(
  config: Config,
  version: string,
  tell: Tell,
  signal: AbortSignal,
  defer: Defer,
): Promise<Reached> {
  const address = addressOf(config, config.port || (await freePort(config.host)))
  if (await answers(address, config, signal)) return { address, own: null, send: connected(address, signal, defer) }
  signal.throwIfAborted()
  tell('starting')
  const own = await startService(ownSettings(config, address.port), builtIn, version)
  defer(own.close)
  // Only now there is an authority on a first run.
  const started = addressOf(config, address.port)
  return { address: started, own, send: connected(started, signal, defer) }
}

/** Alone on its port, quiet, quick and complete, whatever the real service is set to do. */
const ownSettings = (config: Config, port: number): Config => ({
  ...config,
  port,
  httpPort: 0,
  roles: ['api', 'auth', 'worker'],
  logLevel: 'error',
  // The whole catalogue comes from one client at once.
  throttle: null,
})

const unspecified = new Map([
  ['0.0.0.0', '127.0.0.1'],
  ['::', '::1'],
])

function addressOf({ host, baseUrl, dataDir, tlsCertFile }: Config, port: number): Address {
  const authority = tlsCertFile ?? join(resolve(dataDir), 'certificates', 'authority.crt')
  return {
    origin: baseUrl ?? `https://localhost:${port}`,
    host: unspecified.get(host) ?? host,
    port,
    ...(existsSync(authority) && { ca: [...getCACertificates(), readFileSync(authority, 'utf8')] }),
  }
}

function connected(address: Address, signal: AbortSignal, defer: Defer): Send {
  const { send, close } = client(address, signal)
  defer(close)
  return send
}

/** Whether the service answers; false when nothing listens. */
async function answers(address: Address, config: Config, signal: AbortSignal): Promise<boolean> {
  const { send, close } = client(address, signal)
  try {
    const answer = await send('GET', '/livez', { withinMs: probeMs })
    const { status } = await jsonOf<{ status?: string }>(answer)
    if (answer.status !== 200 || status !== 'ok') throw new Error(`/livez answered ${answer.status}`)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') return false
    if (signal.aborted) throw error
    throw new Error(taken(address, config, error), { cause: error })
  } finally {
    close()
  }
}

function taken({ host, port }: Address, { dataDir }: Config, error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException
  return (
    `Port ${port} of ${host} is in use, but not by Plinth with the data folder ${resolve(dataDir)}: ` +
    `${reasons.find(([form]) => form.test(code))?.[1] ?? message}.\n` +
    `Stop what listens there, or choose another port: PLINTH_PORT=${port === 9443 ? 9444 : 9443} npm run demo`
  )
}

const reasons: [code: RegExp, reason: string][] = [
  [/SSL|EPROTO|HTTP_PARSER|HPE_|ECONNRESET|UND_ERR_SOCKET/, 'it does not speak HTTPS'],
  [/TIMEOUT/, 'it does not answer'],
  [/CERT|SIGNATURE/, 'its certificate is of another authority or name'],
]
