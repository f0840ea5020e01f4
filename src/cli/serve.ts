import closeWithGrace, { type Options } from 'close-with-grace'
import type { Config } from '../config/config.ts'
import { guessableSecrets, refuseUnsafeProcess } from '../config/production-checks.ts'
import { threadsOf } from '../config/service.ts'
import type { Service } from '../lifecycle.ts'
import { greeting, logStart, type Started } from './greeting.ts'
import type { LoadedDefinition } from './load-definition.ts'

export const stopLimitMs = 24_000
const parentCheckMs = 500

/**
 * Serves a definition until SIGTERM, Ctrl-C or, if npm started the process, the exit of its parent process; then drains
 * and exits with 0.
 */
export async function serve(config: Config, loaded: LoadedDefinition, version: string): Promise<void> {
  refuseUnsafeProcess(config)
  const starting = start(config, loaded, version)
  // The handlers are installed before the service has started, because its threads may already accept requests. The
  // service logs unhandled rejections itself; without its handler, Node.js turns them into uncaught exceptions.
  const options: Options = { delay: stopLimitMs, logger: false, skip: ['unhandledRejection'] }
  const { close, uninstall } = closeWithGrace(options, async ({ err, signal }) => {
    const service = await starting
    if (err) service.log.error({ err }, 'service failed')
    await service.close(signal ?? (err ? 'error' : 'end of the parent process'))
  })
  stopWithParent(close)
  await starting.catch((error) => {
    uninstall()
    throw error
  })
}

/** Starts a service, and prints the startup messages for its operator. */
async function start(config: Config, loaded: LoadedDefinition, version: string): Promise<Service> {
  const service = await startThreadsOf(config, loaded, version)
  await announce({ service, config, loaded, version })
  return service
}

/** Prints warnings and instructions for the operator. */
export async function announce(started: Started): Promise<void> {
  const { config } = started
  for (const name of config.production ? guessableSecrets(config) : []) {
    process.stderr.write(
      `plinth: ${name} can be guessed: use a random value, such as the output of openssl rand -hex 32\n`,
    )
  }
  await logStart(started)
  if (!config.production) process.stdout.write(await greeting(started, process.stdout, process.env))
}

/**
 * Starts a service in one thread or, if it serves requests, in the configured number of threads. With several threads,
 * the main thread does not load the code that serves requests.
 */
async function startThreadsOf(config: Config, loaded: LoadedDefinition, version: string): Promise<Service> {
  const { threads, roles } = config.service
  const isServing = roles.includes('api') || roles.includes('auth')
  if (threadsOf(threads) === 1 || !isServing) {
    const { startService } = await import('../start.ts')
    return startService(config, loaded.definition, version)
  }
  const { startThreadedService } = await import('../threads/start.ts')
  return startThreadedService(config, loaded, version)
}

/**
 * Calls `close` when the parent process exits, if an npm script such as `npm start` started this process: npm does not
 * forward SIGTERM.
 */
export function stopWithParent(close: () => void): void {
  if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    close()
  }, parentCheckMs)
  watch.unref()
}
