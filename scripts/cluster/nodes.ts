import { randomBytes } from 'node:crypto'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { freePort } from '../../src/serving/listeners.ts'
import type { Program, Programs } from './processes.ts'

/** The bootstrap client, which each node creates on startup if it does not exist. */
export interface BootstrapClient {
  id: string
  secret: string
}

export interface Node {
  name: string
  port: number
  roles: string
  program: Program
  /** Sets the source folder that the node uses from its next start on. */
  useCode: (folder: string) => void
}

export interface NodesOptions {
  /** The roles of each node, such as `api,auth,worker`. */
  roles: readonly string[]
  /** The ports that redirect to HTTPS, for nodes with TLS. */
  redirects?: readonly number[]
  /** The folder with the nodes' sources. */
  code: string
  /** The settings that all nodes share. */
  env: Record<string, string>
  /** Called if a node exits without being stopped. */
  onUnexpectedExit: (text: string) => void
}

/** Limits too high for the load to reach: Redis counts the requests, but none is rejected. */
const generousLimits = Object.fromEntries(
  [
    ...['PLINTH_RATE_LIMIT', 'PLINTH_RATE_LIMIT_ANONYMOUS', 'PLINTH_RATE_LIMIT_REPORTS', 'PLINTH_RATE_LIMIT_WEBHOOKS'],
    'PLINTH_RATE_LIMIT_TOKEN',
  ].map((name) => [name, '600000/60']),
)

/** Returns the settings that all nodes share, except those for the database, Redis and the result store. */
export const sharedSettings = (port: number, client: BootstrapClient): Record<string, string> => ({
  ...generousLimits,
  PLINTH_PROFILE: 'production',
  PLINTH_HOST: '127.0.0.1',
  PLINTH_TLS: 'off',
  PLINTH_TRUSTED_PROXIES: '127.0.0.1',
  PLINTH_BASE_URL: `https://localhost:${port}`,
  PLINTH_MASTER_KEY: randomBytes(32).toString('hex'),
  PLINTH_BOOTSTRAP_CLIENT_ID: client.id,
  PLINTH_BOOTSTRAP_CLIENT_SECRET: client.secret,
  PLINTH_ACCESS_TOKEN_TTL: '86400',
  // The receiver runs on this machine. With short intervals, the tenth attempt comes within a minute instead of hours.
  PLINTH_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
  PLINTH_WEBHOOK_ALLOW_HTTP: 'true',
  PLINTH_WEBHOOK_SCHEDULE: '0,1,2,3,5,5,5,10,10,10',
  PLINTH_WEBHOOK_RATE: '0',
})

/** Adds the nodes to the programs, one after another. */
export async function addNodes(programs: Programs, { roles, redirects, ...options }: NodesOptions): Promise<Node[]> {
  const nodes: Node[] = []
  for (const [at, its] of roles.entries()) {
    nodes.push(await addNode(programs, at + 1, { roles: its, redirect: redirects?.[at] ?? null }, options))
  }
  return nodes
}

async function addNode(
  programs: Programs,
  at: number,
  { roles, redirect }: { roles: string; redirect: number | null },
  { code, env, onUnexpectedExit }: Omit<NodesOptions, 'roles' | 'redirects'>,
): Promise<Node> {
  const name = `node-${at}`
  const port = await freePort()
  const own = {
    PLINTH_DATA_DIR: join(programs.folder, name),
    PLINTH_PORT: String(port),
    PLINTH_HTTP_PORT: String(redirect ?? 0),
    PLINTH_ROLES: roles,
    XDG_CACHE_HOME: join(programs.folder, 'cache'),
  }
  const { PATH = '' } = process.env
  let folder = code
  const program = programs.add({
    name,
    command: () => [join(folder, 'bin', 'plinth.js'), 'serve'],
    env: { PATH: `${dirname(process.execPath)}:${PATH}`, NODE_ENV: 'production', ...env, ...own },
    isReady: () => isReady(redirect !== null && env.PLINTH_TLS === 'on' ? redirect : port),
    onUnexpectedExit: (exitCode, signal) => onUnexpectedExit(`${name} exited with ${exitCode ?? signal}`),
  })
  const useCode = (other: string) => {
    folder = other
  }
  return { name, port, roles, program, useCode }
}

const maxStarts = 30
const restartMs = 1_000

/**
 * Starts a node as a supervisor does: if it exits before it is ready, for example because PostgreSQL is down, it is started
 * again after a second. Returns how many starts failed.
 */
export async function startNode({ program }: Node): Promise<number> {
  for (let failed = 0; ; failed++) {
    try {
      await program.start()
      return failed
    } catch (error) {
      if (failed + 1 === maxStarts) throw error
    }
    await sleep(restartMs)
  }
}

const isReady = (port: number) =>
  request(`http://127.0.0.1:${port}/readyz`, { reset: true }).then(
    async ({ statusCode, body }) => {
      await body.dump()
      return statusCode === 200
    },
    () => false,
  )
