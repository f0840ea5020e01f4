import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * A program of the cluster that can be stopped and restarted. Its output goes to `<name>.log` in the cluster's folder.
 */
export interface Program {
  name: string
  pid: () => number | undefined
  isRunning: () => boolean
  /**
   * Starts the program; resolves when it is ready. If it exits before that, rejects with the end of its log. If it is
   * not ready after a minute, kills it and rejects.
   */
  start: () => Promise<void>
  /** Sends a signal and waits for the exit; after 40 seconds, sends SIGKILL. Returns the exit code. */
  stop: (signal?: NodeJS.Signals) => Promise<number | null>
}

export interface ProgramOptions {
  name: string
  /** Called for each start, because an upgrade changes a node's command. */
  command: () => string[]
  env: NodeJS.ProcessEnv
  isReady: () => Promise<boolean>
  /** Called if the program exits without a call to `stop`. */
  onUnexpectedExit?: (code: number | null, signal: NodeJS.Signals | null) => void
}

export interface Programs {
  folder: string
  add: (options: ProgramOptions) => Program
  /** Stops all programs, newest first. Programs whose names differ only in a number, such as nodes, stop together. */
  stopAll: () => Promise<void>
}

const readyMs = 60_000
const killAfterMs = 40_000

/**
 * Manages programs that write their logs to a folder. Kills the programs that are still running when this process
 * exits.
 */
export function openPrograms(folder: string): Programs {
  const all: Program[] = []
  process.once('exit', () => {
    for (const { pid, isRunning } of all) if (isRunning()) process.kill(pid() as number, 'SIGKILL')
  })
  return {
    folder,
    add: (options) => {
      const program = programOf(folder, options)
      all.push(program)
      return program
    },
    stopAll: async () => {
      const kinds = Object.values(Object.groupBy(all, ({ name }) => name.replace(/-\d+$/, '')))
      for (const kind of kinds.toReversed()) await Promise.all((kind ?? []).map((program) => program.stop()))
    },
  }
}

const hasExited = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null

function programOf(folder: string, options: ProgramOptions): Program {
  const logFile = join(folder, `${options.name}.log`)
  let child: ChildProcess | undefined
  let isStopping = false
  const isRunning = () => child !== undefined && !hasExited(child)
  return {
    name: options.name,
    pid: () => child?.pid,
    isRunning,
    start: async () => {
      isStopping = false
      const started = spawnInto(logFile, options)
      child = started
      await untilReady(started, options, logFile).catch(async (error) => {
        await end(started, 'SIGKILL')
        throw error
      })
      started.once('exit', (code, signal) => {
        if (!isStopping) options.onUnexpectedExit?.(code, signal)
      })
    },
    stop: async (signal = 'SIGTERM') => {
      isStopping = true
      return child === undefined ? null : end(child, signal)
    },
  }
}

/** Sends a signal, and SIGKILL after 40 seconds, unless the program has exited. Returns the exit code. */
async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.pid === undefined || hasExited(child)) return child.exitCode
  const exited = once(child, 'exit')
  child.kill(signal)
  const timer = setTimeout(() => child.kill('SIGKILL'), killAfterMs)
  await exited
  clearTimeout(timer)
  return child.exitCode
}

/** Starts a program in its own process group, so that Ctrl-C reaches only this script, which stops the programs in order. */
function spawnInto(logFile: string, { name, command, env }: ProgramOptions): ChildProcess {
  const [program = '', ...args] = command()
  const log = openSync(logFile, 'a')
  const child = spawn(program, args, { env, detached: true, stdio: ['ignore', log, log] })
  closeSync(log)
  child.once('error', (error) => process.stderr.write(`${name}: ${error.message}\n`))
  return child
}

async function untilReady(child: ChildProcess, { name, isReady }: ProgramOptions, logFile: string): Promise<void> {
  const deadline = performance.now() + readyMs
  for (;;) {
    if (child.pid === undefined || hasExited(child)) {
      const end = readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-10).join('\n')
      throw new Error(`${name} exited with ${child.exitCode ?? child.signalCode} before it was ready:\n${end}`)
    }
    if (await isReady()) return
    if (performance.now() > deadline) throw new Error(`${name} is not ready after ${readyMs / 1_000} s; see ${logFile}`)
    await sleep(50)
  }
}
