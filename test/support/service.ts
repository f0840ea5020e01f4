import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Agent, request } from 'undici'
import { isHealthPath } from '../../src/http/server/health.ts'
import { freePort } from '../../src/serving/listeners.ts'
import { withoutLimits } from './limits.ts'

const plinth = fileURLToPath(new URL('../../bin/plinth.js', import.meta.url))

/**
 * Calls `look` at increasing intervals until it returns a value. Fails after `ms`, with a message that contains
 * `what`.
 */
export async function eventually<T>(what: string, look: () => Promise<T | undefined | false>, ms = 60_000): Promise<T> {
  const begun = performance.now()
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    const waited = performance.now() - begun
    if (waited > ms) throw new Error(`Not within ${ms} ms: ${what}`)
    await pause(Math.min(10 + waited / 10, 250))
  }
}

export interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  bytes: Buffer
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests assert a response field by field
  json: () => any
}

export interface RealService {
  port: number
  dataDir: string
  child: () => ChildProcess
  output: () => string
  start: () => Promise<void>
  kill: (signal: NodeJS.Signals) => Promise<void>
  token: () => Promise<string>
  /** Sends a request with a token. A body is sent as JSON, or unchanged if it is a buffer. */
  call: (
    method: string,
    path: string,
    options?: { body?: unknown; headers?: Record<string, string>; signal?: AbortSignal },
  ) => Promise<Answer>
  remove: () => Promise<void>
}

/**
 * Prepares a service as an operator would run it: in a separate process, with TLS, a data folder and a client that has
 * every scope. `start` starts the process.
 */
export async function realService(env: Record<string, string> = {}): Promise<RealService> {
  const dataDir = mkdtempSync(join(tmpdir(), 'plinth-service-'))
  const port = await freePort()
  const settings = {
    ...process.env,
    PLINTH_DATA_DIR: dataDir,
    PLINTH_PORT: String(port),
    PLINTH_HTTP_PORT: '0',
    PLINTH_DRAIN: '0',
    PLINTH_BOOTSTRAP_CLIENT_ID: 'boot',
    PLINTH_BOOTSTRAP_CLIENT_SECRET: 'boot secret',
    ...withoutLimits,
    ...env,
  }
  const base = `https://localhost:${port}`
  let child: ChildProcess
  let output = ''
  let agent: Agent | undefined
  let bearer: string | undefined

  const raw = async (
    method: string,
    path: string,
    headers: Record<string, string>,
    body?: string | Buffer,
    signal?: AbortSignal,
  ): Promise<Answer> => {
    agent ??= new Agent({ connect: { ca: readFileSync(join(dataDir, 'certificates', 'authority.crt')) } })
    const options = { method: method as 'GET', headers, body, dispatcher: agent, signal }
    const response = await request(base + path, options)
    const bytes = Buffer.from(await response.body.arrayBuffer())
    const text = bytes.toString()
    return { status: response.statusCode, headers: response.headers, bytes, text, json: () => JSON.parse(text) }
  }
  const token = async () => {
    const headers = {
      authorization: `Basic ${Buffer.from('boot:boot+secret').toString('base64')}`,
      'content-type': 'application/x-www-form-urlencoded',
    }
    bearer ??= (await raw('POST', '/oauth/token', headers, 'grant_type=client_credentials')).json()
      .access_token as string
    return bearer
  }
  return {
    port,
    dataDir,
    child: () => child,
    output: () => output,
    start: async () => {
      child = spawn(process.execPath, [plinth, 'serve'], { env: settings, stdio: ['ignore', 'pipe', 'pipe'] })
      child.stdout?.on('data', (chunk) => (output += chunk))
      child.stderr?.on('data', (chunk) => (output += chunk))
      await eventually(`the service answers (it printed: ${output})`, () =>
        raw('GET', '/livez', {}).then(
          ({ status }) => status === 200,
          () => {
            if (child.exitCode !== null) throw new Error(`The service ended with ${child.exitCode}: ${output}`)
            return false
          },
        ),
      )
    },
    kill: async (signal) => {
      const ended = once(child, 'exit')
      if (child.exitCode === null && child.signalCode === null) {
        child.kill(signal)
        await ended
      }
      await agent?.destroy()
      agent = undefined
    },
    token,
    call: async (method, path, { body, headers = {}, signal } = {}) =>
      raw(
        method,
        path,
        {
          // Like a probe, sends health checks without a token, which the service would have to verify.
          ...(!isHealthPath(path) && { authorization: `Bearer ${await token()}` }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        body === undefined || Buffer.isBuffer(body) ? body : JSON.stringify(body),
        signal,
      ),
    remove: async () => {
      if (child?.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
      await agent?.destroy()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
