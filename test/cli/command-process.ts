import { existsSync, readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { setEnvironmentData } from 'node:worker_threads'

// Runs the commands that `commandRunner` sends to this process, one after another. Modules are imported only once.

export interface Command {
  args: string[]
  env: NodeJS.ProcessEnv
  input: string
}

export interface CommandResult {
  code: number
  stdout: string
  stderr: string
}

/** Thrown by `process.exit`, so that it ends the command but not the process. */
class Exit extends Error {
  override name = 'Exit'
}

const root = new URL('../../', import.meta.url)

/** Returns the main file: the bundle if it is up to date, because it loads in half the time; otherwise src/main.ts. */
async function programFile(): Promise<URL> {
  const { stateOfSources } = await import(new URL('bin/code.js', root).href)
  const state = new URL('build/sources.txt', root)
  const code = existsSync(state) && readFileSync(state, 'utf8') === stateOfSources() ? 'build' : 'src'
  // Definitions that import the package must load the same code.
  setEnvironmentData('plinth:code', code)
  return new URL(code === 'build' ? 'build/main.js' : 'src/main.ts', root)
}

const program = await programFile()
let count = 0

async function perform({ args, env, input }: Command): Promise<CommandResult> {
  let exitCode: number | undefined
  const texts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    process[name].write = (chunk: string | Uint8Array) => {
      // After `process.exit`, a command must print nothing.
      if (exitCode === undefined) texts[name] += chunk
      return true
    }
  }
  process.exit = (code) => {
    exitCode ??= Number(code ?? process.exitCode ?? 0)
    throw new Exit()
  }
  Object.defineProperty(process, 'stdin', { value: Readable.from([input]), configurable: true })
  process.argv = [process.execPath, 'plinth', ...args]
  process.env = { ...env }
  process.exitCode = undefined
  // The query makes Node.js evaluate this module again; the modules that it imports are cached.
  await import(`${program.href}?command=${++count}`)
  return { code: exitCode ?? Number(process.exitCode ?? 0), ...texts }
}

process.on('message', async (command: Command) => {
  const result = await perform(command)
  process.send?.(result)
})
process.on('disconnect', () => {
  process.exitCode = 0
})
