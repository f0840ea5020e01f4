import assert from 'node:assert/strict'
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Agent, request } from 'undici'
import { freePort } from '../../src/serving/listeners.ts'
import { eventually } from '../support/service.ts'
import type { Command, CommandResult } from './command-process.ts'

export { eventually }

export const project = fileURLToPath(new URL('../..', import.meta.url))
const plinthFile = join(project, 'bin', 'plinth.js')

/** The outcome of a process, once all descendants that share its output have exited. */
export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

export interface Running {
  child: ChildProcess
  stdout: () => string
  ended: Promise<Ended>
}

export type Environment = Record<string, string>

/**
 * Returns this process's environment plus the given variables. Keeps the compile cache and the number of threads, but no
 * other settings of the service.
 */
export function cleanEnvironment(env: Environment): NodeJS.ProcessEnv {
  const own = /^(PLINTH_(?!THREADS)|NODE_ENV|NODE_TEST_CONTEXT|DATABASE_URL|npm_|NO_COLOR|FORCE_COLOR)/
  const inherited = Object.entries(process.env).filter(([name]) => !own.test(name))
  return { ...Object.fromEntries(inherited), ...env }
}

const started = new Set<ChildProcess>()

/** Starts a program; after the tests, `killAll` kills the programs that are still running. */
export function start(command: string, args: string[], env: Environment, cwd = tmpdir()): Running {
  const child = spawn(command, args, { env: cleanEnvironment(env), cwd, stdio: ['ignore', 'pipe', 'pipe'] })
  started.add(child)
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
  // 'close' fires only after every process that has these pipes open, including grandchildren, has exited.
  const ended = once(child, 'close').then(([code, signal]) => {
    started.delete(child)
    return { code, signal, stdout, stderr }
  })
  return { child, stdout: () => stdout, ended }
}

/** Runs `plinth` with these arguments, by default in a folder without a `.env`. */
export const plinth = (args: string[], env: Environment = {}, cwd?: string): Running =>
  start(process.execPath, [plinthFile, ...args], env, cwd)

/** Waits for `plinth` to exit; fails after a timeout that is longer than any command in these tests takes. */
export const ended = async (running: Running): Promise<Ended> => {
  const limitMs = 20_000
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    running.child.kill('SIGKILL')
    reject(new Error(`Still running after ${limitMs / 1_000} s: ${running.stdout()}`))
  }, limitMs)
  return Promise.race([running.ended, late]).finally(() => clearTimeout(timer))
}

/** Returns a function that runs a command in this environment, asserts that it succeeds, and returns its output. */
export const succeeding =
  (env: Environment) =>
  async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await ended(plinth(args, env))
    assert.deepEqual([code, stderr], [0, ''])
    return stdout
  }

/**
 * Starts one process for many `plinth` commands, which run one after another. Tests of the process itself, such as
 * its start and its end, use `plinth` instead.
 */
export function commandRunner(env: Environment) {
  const file = join(project, 'test', 'cli', 'command-process.ts')
  const child = fork(file, { cwd: tmpdir(), env: cleanEnvironment({}) })
  let last: Promise<unknown> = Promise.resolve()
  const perform = async (command: Command): Promise<CommandResult> => {
    child.send(command)
    const ending = new AbortController()
    const ended = once(child, 'exit', ending).then(([code]) => {
      throw new Error(`${command.args.join(' ')} ended its process with ${code}`)
    })
    const [result] = await Promise.race([once(child, 'message', ending), ended]).finally(() => ending.abort())
    return result
  }
  /** Runs a command with this standard input. */
  const run = (args: string[], input = '', more: Environment = {}): Promise<CommandResult> => {
    const result = last.then(() => perform({ args, input, env: cleanEnvironment({ ...env, ...more }) }))
    last = result.catch(() => {})
    return result
  }
  return { run, close: () => child.disconnect() }
}

export function killAll(): void {
  for (const child of started) child.kill('SIGKILL')
}

/** Creates a data folder and finds a free port; `env` contains both. */
export async function newPlace(): Promise<{ dataDir: string; port: number; env: Environment; remove: () => void }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'plinth-command-'))
  const port = await freePort()
  const env = { PLINTH_DATA_DIR: dataDir, PLINTH_PORT: String(port), PLINTH_HTTP_PORT: '0', PLINTH_DRAIN: '0' }
  return { dataDir, port, env, remove: () => rmSync(dataDir, { recursive: true, force: true }) }
}

interface Visit {
  method?: string
  headers?: Record<string, string>
  body?: string
}

/** Sends one request on its own connection, trusting only the local CA. */
export async function visit(dataDir: string, url: string, { method = 'GET', headers, body }: Visit = {}) {
  const ca = url.startsWith('https:') && readFileSync(join(dataDir, 'certificates', 'authority.crt'), 'utf8')
  const dispatcher = new Agent(ca ? { connect: { ca } } : {})
  try {
    const response = await request(url, { method: method as 'GET', headers, body, dispatcher })
    const text = await response.body.text()
    // biome-ignore lint/suspicious/noExplicitAny: tests assert a body member by member
    return { status: response.statusCode, headers: response.headers, text, json: (): any => JSON.parse(text) }
  } finally {
    await dispatcher.destroy()
  }
}

/** Starts `plinth serve`, and resolves when it responds to requests. */
export async function serving(dataDir: string, port: number, env: Environment): Promise<Running> {
  const running = plinth(['serve'], env)
  await answering(running, dataDir, port)
  return running
}

export function answering(running: Running, dataDir: string, port: number): Promise<boolean> {
  return eventually(
    'the service answers',
    async () => {
      if (running.child.exitCode !== null) throw new Error((await running.ended).stderr)
      return visit(dataDir, `https://localhost:${port}/livez`).then(
        ({ status }) => status === 200,
        () => false,
      )
    },
    20_000,
  )
}

/** Starts a server that occupies a port. */
export async function occupied(port = 0): Promise<{ port: number; server: Server }> {
  const server = createServer((_request, response) => response.end('something else'))
  await once(server.listen(port, '127.0.0.1'), 'listening')
  return { port: (server.address() as AddressInfo).port, server }
}

export function basic(id: string, secret: string): string {
  return `Basic ${Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString('base64')}`
}

/** Requests a token with client credentials; returns the whole response, even if it is an error. */
export const requestToken = (dataDir: string, port: number, id: string, secret: string) =>
  visit(dataDir, `https://localhost:${port}/oauth/token`, {
    method: 'POST',
    headers: { authorization: basic(id, secret), 'content-type': 'application/x-www-form-urlencoded' },
    body: 'grant_type=client_credentials',
  })
