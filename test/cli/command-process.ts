import { Readable } from 'node:stream'

// The process of `commandRunner`: it runs the commands that it receives one after another, with modules imported only once.

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
  await import(`../../src/main.ts?command=${++count}`)
  return { code: exitCode ?? Number(process.exitCode ?? 0), ...texts }
}

process.on('message', async (command: Command) => {
  const result = await perform(command)
  process.send?.(result)
})
process.on('disconnect', () => {
  process.exitCode = 0
})
