import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** A temporary folder and the processes started in it; nothing of either outlives the run. */
export interface Workplace {
  folder: string
  start: (command: string[], options: SpawnOptions) => ChildProcess
  stop: (child: ChildProcess) => Promise<void>
  /** Stops what still runs and removes the folder. */
  clear: () => Promise<void>
}

const killAfterMs = 10_000

export function openWorkplace(): Workplace {
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

/** Starts a program of ours that tells when it is ready; throws when it ends before. */
export async function startReady(
  { start }: Pick<Workplace, 'start'>,
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

/** Ends a process by its own id, kindly first. */
async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const last = setTimeout(() => child.kill('SIGKILL'), killAfterMs)
  await ended
  clearTimeout(last)
}

/** The environment of a child: this Node first, nothing of npm's, no settings of the service but the given ones. */
export const environment = (settings: Record<string, string>): NodeJS.ProcessEnv => {
  const { PATH = '', HOME = '' } = process.env
  return { PATH: `${dirname(process.execPath)}:${PATH}`, HOME, NODE_ENV: 'production', ...settings }
}

/** What makes a child leave a CPU profile in `bench/results/<name>` as it ends. */
export const profiling = (name: 'service' | 'reference'): NodeJS.ProcessEnv => ({
  NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${join(import.meta.dirname, 'results', name)}`,
})
