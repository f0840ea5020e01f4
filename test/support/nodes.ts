import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { request } from 'undici'
import { freePort } from '../../src/serving/listeners.ts'
import { ended, eventually, plinth, type Running } from '../cli/support.ts'
import { withoutLimits } from './limits.ts'

const baseUrl = 'https://plinth.test'

/** Manages processes of one service, configured as if behind a proxy that terminates TLS. */
export interface Nodes {
  /** Starts a process with these settings, and returns once it is ready. */
  start: (env?: Record<string, string>) => Promise<Node>
  /** Starts a process that is expected to fail, and returns its exit code and error output. */
  fails: (env?: Record<string, string>) => Promise<{ code: number | null; stderr: string }>
  /** Runs a `plinth` command with the settings of the service. */
  command: (...args: string[]) => Promise<{ code: number | null; stdout: string; stderr: string }>
  remove: () => Promise<void>
}

export interface Node extends Running {
  port: number
  /** Sends a request to this process, with a token if one is given. */
  call: (method: string, path: string, sent?: { token?: string; body?: object }) => Promise<NodeResponse>
  /** Requests an access token for the bootstrap client from this process. */
  token: () => Promise<string>
  stop: () => Promise<void>
}

export interface NodeResponse {
  status: number
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests assert a body member by member
  json: () => any
}

/** Prepares a service whose processes share a PostgreSQL database, a master key, a base URL and a results folder. */
export function nodesOn(databaseUrl: string, shared: Record<string, string> = {}): Nodes {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-nodes-'))
  const running: Node[] = []
  let count = 0
  const settings = {
    ...{ DATABASE_URL: databaseUrl, PLINTH_MASTER_KEY: 'ab'.repeat(32), PLINTH_BASE_URL: baseUrl },
    ...{ PLINTH_TLS: 'off', PLINTH_TRUSTED_PROXIES: '127.0.0.1', PLINTH_DRAIN: '0', PLINTH_HTTP_PORT: '0' },
    ...{ PLINTH_BOOTSTRAP_CLIENT_ID: 'boot', PLINTH_BOOTSTRAP_CLIENT_SECRET: 'boot secret' },
    ...{ PLINTH_RESULTS_URL: `file:${join(folder, 'results')}`, PLINTH_DATA_DIR: join(folder, 'data') },
    ...withoutLimits,
    ...shared,
  }
  const begin = (port: number, env: Record<string, string>) =>
    plinth(['serve'], {
      ...{ ...settings, PLINTH_DATA_DIR: join(folder, String(count++)), PLINTH_PORT: String(port), ...env },
    })
  return {
    start: async (env = {}) => {
      const port = await freePort()
      const node = nodeOf(begin(port, env), port)
      running.push(node)
      await ready(node)
      return node
    },
    fails: (env = {}) => ended(begin(0, env)),
    command: (...args) => ended(plinth(args, settings)),
    remove: async () => {
      await Promise.all(running.map(({ stop }) => stop()))
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function nodeOf(process: Running, port: number): Node {
  const send = async (method: string, path: string, headers: Record<string, string>, body?: string) => {
    const forwarded = { ...headers, 'x-forwarded-proto': 'https', host: new URL(baseUrl).host }
    const url = `http://127.0.0.1:${port}${path}`
    const response = await request(url, { method: method as 'GET', headers: forwarded, body })
    const text = await response.body.text()
    return { status: response.statusCode, text, json: () => JSON.parse(text) }
  }
  return {
    ...process,
    port,
    call: (method, path, { token, body } = {}) =>
      send(
        method,
        path,
        {
          ...(token && { authorization: `Bearer ${token}` }),
          ...(body && { 'content-type': 'application/json' }),
        },
        body && JSON.stringify(body),
      ),
    token: async () => {
      const authorization = `Basic ${Buffer.from('boot:boot+secret').toString('base64')}`
      const headers = { authorization, 'content-type': 'application/x-www-form-urlencoded' }
      const response = await send('POST', '/oauth/token', headers, 'grant_type=client_credentials')
      return response.json().access_token
    },
    stop: async () => {
      process.child.kill('SIGTERM')
      await process.ended
    },
  }
}

const ready = (node: Node) =>
  eventually('the process is ready', async () => {
    if (node.child.exitCode !== null) throw new Error(`It ended: ${(await node.ended).stderr}${node.stdout()}`)
    return node.call('GET', '/readyz').then(
      ({ status }) => status === 200,
      () => false,
    )
  })
