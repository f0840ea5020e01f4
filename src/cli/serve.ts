import closeWithGrace from 'close-with-grace'
import type { Config } from '../config/config.ts'
import { guessableSecrets, refuseUnsafeProcess } from '../config/production-checks.ts'
import { threadsOf } from '../config/service.ts'
import type { Service } from '../lifecycle.ts'
import { startService } from '../start.ts'
import { greeting, logStart } from './greeting.ts'
import type { LoadedDefinition } from './load-definition.ts'

const stopLimitMs = 24_000
const parentCheckMs = 500

/**
 * Serves a definition until SIGTERM, Ctrl-C or the exit of the `npm` process that started it; then drains and exits with 0.
 */
export async function serve(config: Config, loaded: LoadedDefinition, version: string): Promise<void> {
  refuseUnsafeProcess(config)
  const starting = start(config, loaded, version)
  // Before the service has started, because its threads may already respond.
  const { close, uninstall } = closeWithGrace({ delay: stopLimitMs, logger: false }, async ({ err, signal }) => {
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

/** Starts a service, and prints what its operator needs to know. */
async function start(config: Config, loaded: LoadedDefinition, version: string): Promise<Service> {
  const service = await startThreadsOf(config, loaded, version)
  for (const name of config.production ? guessableSecrets(config) : []) {
    process.stderr.write(
      `plinth: ${name} can be guessed: use a random value, such as the output of openssl rand -hex 32\n`,
    )
  }
  const started = { service, config, loaded, version }
  await logStart(started)
  if (!config.production) process.stdout.write(await greeting(started, process.stdout, process.env))
  return service
}

/** Starts a service in one thread or, if it serves requests, in as many as configured. */
async function startThreadsOf(config: Config, loaded: LoadedDefinition, version: string): Promise<Service> {
  const { threads, roles } = config.service
  const isServing = roles.includes('api') || roles.includes('auth')
  if (threadsOf(threads) === 1 || !isServing) return startService(config, loaded.definition, version)
  const { startThreadedService } = await import('../threads/start.ts')
  return startThreadedService(config, loaded, version)
}

/** Stops a service started by `npm start` when its parent process exits, because npm does not forward SIGTERM. */
function stopWithParent(close: () => void): void {
  if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    close()
  }, parentCheckMs)
  watch.unref()
}
