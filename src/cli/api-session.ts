import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { getCACertificates } from 'node:tls'
import { baseUrlOf, type Config } from '../config/config.ts'
import { type Call, caller, client, jsonOf } from './demo/api.ts'
import { interruptible } from './demo/ending.ts'

export interface SessionOptions {
  baseUrl?: string
  clientId?: string
  clientSecret?: string
}

/** An authenticated connection to a service. */
export interface Session {
  call: Call
  close: () => void
}

/**
 * Connects to the service at `baseUrl` (default: the URL in these settings) as the given client (default:
 * PLINTH_CLIENT_ID with PLINTH_CLIENT_SECRET). Trusts the system's CAs and the configured certificate or, by default,
 * the local CA in the data folder.
 */
export async function openSession(config: Config, options: SessionOptions, signal: AbortSignal): Promise<Session> {
  const id = options.clientId ?? process.env.PLINTH_CLIENT_ID
  const secret = options.clientSecret ?? process.env.PLINTH_CLIENT_SECRET
  if (!id || !secret) {
    throw new Error('Pass --client-id and --client-secret, or set PLINTH_CLIENT_ID and PLINTH_CLIENT_SECRET')
  }
  const { origin, protocol, hostname, port } = new URL(options.baseUrl ?? baseUrlOf(config))
  const authority = config.http.tlsCertFile ?? join(resolve(config.storage.dataDir), 'certificates', 'authority.crt')
  const ca = existsSync(authority) ? { ca: [...getCACertificates(), readFileSync(authority, 'utf8')] } : {}
  const host = hostname.replace(/^\[|\]$/g, '')
  const { send, close } = client(
    { origin, host, port: Number(port || (protocol === 'http:' ? 80 : 443)), ...ca },
    signal,
  )
  try {
    const credentials = Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString('base64')
    const authenticated = caller(send, signal, { authorization: `Basic ${credentials}` })
    const response = await authenticated('POST', '/oauth/token', { form: { grant_type: 'client_credentials' } })
    const { access_token } = await jsonOf<{ access_token: string }>(response)
    return { call: caller(send, signal, { authorization: `Bearer ${access_token}` }), close }
  } catch (error) {
    close()
    if ((error as NodeJS.ErrnoException).code !== 'ECONNREFUSED') throw error
    throw new Error(`Cannot connect to ${origin}: start the service, or pass another --base-url`, {
      cause: error,
    })
  }
}

/** Runs `work` in its own session; Ctrl-C and SIGTERM end the session with the corresponding exit code. */
export async function withSession(config: Config, options: SessionOptions, work: (call: Call) => Promise<void>) {
  const { signal, release } = interruptible()
  try {
    const { call, close } = await openSession(config, options, signal)
    await work(call).finally(close)
  } catch (error) {
    if (!signal.aborted) throw error
    process.exitCode = signal.reason
  } finally {
    release()
  }
}
