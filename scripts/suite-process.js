import asyncHooks from 'node:async_hooks'
import { isMainThread } from 'node:worker_threads'

// Loaded into each process of scripts/suite.ts before the test runner.
//
// The runner has an async hook that finds the test to which an uncaught error belongs. This hook runs for each promise
// and takes a tenth of the CPU time of the suite. Without it, an uncaught error ends the process, which fails its files.

const { createHook } = asyncHooks
const noHook = { enable: () => noHook, disable: () => noHook }

/** Returns no hook to the runner, which creates its own when it is first imported. */
asyncHooks.createHook = (callbacks) => {
  const isRunner = new Error().stack?.includes('node:internal/test_runner/') ?? false
  return isRunner ? noHook : createHook(callbacks)
}

// An uncaught error in another thread goes to the thread that has started it.
for (const event of isMainThread ? ['uncaughtException', 'unhandledRejection'] : []) {
  process.on(event, (error) => {
    process.stderr.write(`${event}: ${error?.stack ?? error}\n`)
    process.exit(1)
  })
}
