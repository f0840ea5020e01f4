import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { loadCore, pinned } from './cpu-and-memory.ts'
import type { LoadOrder, LoadResult } from './load.ts'
import type { OpenOrder, OpenResult } from './open-load.ts'

/** A temporary folder, and the processes of a run. */
export interface Sandbox {
  folder: string
  start: (command: string[], options: SpawnOptions) => ChildProcess
  stop: (child: ChildProcess) => Promise<void>
  /** Stops the remaining processes and removes the folder. */
  clear: () => Promise<void>
}

const killAfterMs = 10_000

export function openSandbox(): Sandbox {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-bench-'))
  const running = new Set<ChildProcess>()
  let cleared: Promise<void> | undefined
  return {
    folder,
    start: ([program = '', ...args], options) => {
      const child = spawn(program, args, { cwd: folder, ...options })
      running.add(child)
      child.once('exit', () => running.delete(child))
      return child
    },
    stop,
    clear: () => {
      cleared ??= Promise.all([...running].map(stop)).then(() => rmSync(folder, { recursive: true, force: true }))
      return cleared
    },
  }
}

/** Starts a Node.js program and waits for its ready message; throws if the program exits before that. */
export async function startReady(
  { start }: Pick<Sandbox, 'start'>,
  command: string[],
  env: NodeJS.ProcessEnv,
  output: 'inherit' | 'ignore' = 'inherit',
): Promise<ChildProcess> {
  const child = start(command, { env, stdio: ['ignore', output, output, 'ipc'] })
  const ended = new AbortController()
  child.once('exit', () => ended.abort(new Error(`${command.join(' ')} did not start`)))
  await once(child, 'message', { signal: ended.signal }).catch(() => {
    throw ended.signal.reason
  })
  child.disconnect()
  return child
}

/** Stops a process with SIGTERM, or with SIGKILL if it does not exit in time. */
async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const killTimer = setTimeout(() => child.kill('SIGKILL'), killAfterMs)
  await ended
  clearTimeout(killTimer)
}

/**
 * Builds a child process's environment: PATH with this Node.js first, HOME, production mode, one thread, and the given
 * settings.
 */
export const environment = (settings: Record<string, string>): NodeJS.ProcessEnv => {
  const { PATH = '', HOME = '' } = process.env
  return {
    PATH: `${dirname(process.execPath)}:${PATH}`,
    HOME,
    NODE_ENV: 'production',
    PLINTH_THREADS: '1',
    ...settings,
  }
}

/** Returns environment variables that make a child process write a CPU profile to `bench/results/<name>` on exit. */
export const profiling = (name: 'service' | 'reference'): NodeJS.ProcessEnv => ({
  NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${join(import.meta.dirname, 'results', name)}`,
})

/** Runs the load generator once; throws if it fails or if a response has none of the expected statuses (null: any). */
export async function runLoad(
  sandbox: Sandbox,
  pin: boolean,
  order: LoadOrder,
  expected: readonly number[] | null,
): Promise<LoadResult> {
  const result = await generate<LoadResult>(sandbox, pin, 'load.ts', order)
  if (expected === null) return result
  const wrong = Object.entries(result.statuses).filter(([status]) => !expected.includes(Number(status)))
  if (wrong.length > 0)
    throw new Error(`Expected only ${expected.join(' and ')}, got ${JSON.stringify(result.statuses)}`)
  return result
}

/** Runs the open-loop load generator once; throws if it fails. */
export const runOpenLoad = (sandbox: Sandbox, pin: boolean, order: OpenOrder): Promise<OpenResult> =>
  generate(sandbox, pin, 'open-load.ts', order)

async function generate<Result>(sandbox: Sandbox, pin: boolean, name: string, order: object): Promise<Result> {
  const command = pinned(pin, loadCore, [process.execPath, resolve(import.meta.dirname, name)])
  const child = sandbox.start(command, { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  child.stdin?.end(JSON.stringify(order))
  const output = await text(child.stdout as NodeJS.ReadableStream & AsyncIterable<Buffer>)
  const [code] = await ended
  if (code !== 0) throw new Error(`The load generator exited with ${code}`)
  return JSON.parse(output) as Result
}
