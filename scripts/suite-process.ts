// Runs the test files of one process; scripts/suite.ts generates the modules that import this one.
import asyncHooks, { type AsyncHook } from 'node:async_hooks'
import { existsSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import workerThreads, { type WorkerOptions } from 'node:worker_threads'

const sources = fileURLToPath(new URL('../src/', import.meta.url))
const build = fileURLToPath(new URL('../build/', import.meta.url))

/**
 * Imports the test runner. Returns its functions and the async hook with which it finds the suite of each new test. While
 * the hook is enabled, every promise costs two calls and must be tracked by the garbage collector.
 */
async function runnerWithHook() {
  const { createHook } = asyncHooks
  const hooks: AsyncHook[] = []
  // The runner reads `createHook` when it is imported, but calls it only when the first suite is declared.
  asyncHooks.createHook = (callbacks) => {
    const hook = createHook(callbacks)
    hooks.push(hook)
    return hook
  }
  const runner = await import('node:test')
  asyncHooks.createHook = createHook
  return { runner, hooks }
}

/**
 * Makes worker threads of the service run the bundle instead of the sources. Each thread imports everything again, and
 * a few files load faster than hundreds.
 */
function runThreadsFromBuild(): void {
  const { Worker } = workerThreads
  const built = (program: string | URL): string | URL => {
    if (!String(program).startsWith('file:')) return program
    const path = fileURLToPath(program).replace(sources, build).replace(/\.ts$/, '.js')
    return path.startsWith(build) && existsSync(path) ? pathToFileURL(path) : program
  }
  workerThreads.Worker = class BuiltWorker extends Worker {
    constructor(program: string | URL, options?: WorkerOptions) {
      super(built(program), options)
    }
  }
  syncBuiltinESMExports()
}

/**
 * Declares a suite for each file. When all are imported, disables the hook of the test runner, which takes a quarter of
 * the CPU time of the tests. From then on, an error outside of a test's promise fails the whole process, not that test.
 * `hasBuild`: whether `build/` contains a bundle of the current sources.
 */
export async function describeFiles(files: readonly string[], hasBuild: boolean): Promise<void> {
  if (hasBuild) runThreadsFromBuild()
  const { runner, hooks } = await runnerWithHook()
  let pending = files.length
  for (const file of files) {
    runner.describe(file, async () => {
      await import(pathToFileURL(file).href)
      pending -= 1
      if (pending === 0) for (const hook of hooks) hook.disable()
    })
  }
}
