import { registerHooks } from 'node:module'
import type { Server, Socket } from 'node:net'
import { resolve } from 'node:path'
import type { Config } from '../../config/config.ts'
import { databaseUrlOf } from '../../config/storage.ts'
import { startService } from '../../start.ts'
import { DefinitionError } from '../../startup-errors.ts'
import { sqlitePath } from '../../storage/sqlite/path.ts'
import { logStart } from '../greeting.ts'
import { trackImports } from '../imported-files.ts'
import { findDefinition, loadDefinition } from '../load-definition.ts'
import { announce } from '../serve.ts'
import type { FromProcess, ToProcess } from './messages.ts'

interface ServedOptions {
  config: Config
  /** The definition file named on the command line, if any. */
  named: string | undefined
  version: string
}

const send = (message: FromProcess) => void (process.connected && process.send?.(message))

/**
 * Serves one version of a definition in a process started by the supervisor. On the supervisor's messages, loads the
 * definition, starts the service, and serves the connections that it receives. Rejects if the definition cannot be
 * loaded or the service cannot start.
 */
export async function serveWatched({ config, named, version }: ServedOptions): Promise<void> {
  const received = messages()
  try {
    await preload(config)
    await received.next('load')
    const { file } = findDefinition(named ?? config.service.definitionFile, process.cwd())
    if (file === null)
      throw new DefinitionError(['plinth serve --watch needs a definition: name its file, or create service.ts'])
    const { files, stop } = trackImports(resolve(file))
    const definition = await loadDefinition(file)
      .finally(stop)
      .finally(() => send({ event: 'imported', files: [...files] }))
    send({ event: 'loaded' })
    const { isFirst } = await received.next('serve')
    const service = await startService(config, definition, version, received.connections)
    const started = { service, config, loaded: { file, definition, imported: files }, version }
    await (isFirst ? announce(started) : logStart(started))
    send({ event: 'ready' })
    await received.next('close')
    await service.close('a change of the definition, or the end of the command')
    send({ event: 'closed' })
  } finally {
    received.close()
  }
}

const emptyModule = 'data:text/javascript,'

/** Loads modules that are otherwise loaded on demand, so that a restart does not wait for them. */
async function preload({ service, storage }: Config): Promise<void> {
  // Importing an empty TypeScript module makes Node.js load its TypeScript parser.
  const hook = registerHooks({
    load: (url, context, next) =>
      url === emptyModule ? { format: 'module-typescript', source: '', shortCircuit: true } : next(url, context),
  })
  await import(emptyModule)
  hook.deregister()
  if (service.roles.includes('auth')) await import('../../oauth/provider/current-server.ts')
  if (sqlitePath(databaseUrlOf(storage)) !== null) await import('../../storage/sqlite/open.ts')
  else await Promise.all([import('../../storage/postgres/driver.ts'), import('../../queue/pg-boss.ts')])
}

/**
 * Receives the supervisor's messages. If the supervisor exits, closes the service or, if it is not serving yet, exits.
 */
function messages() {
  const waiting = new Map<string, (message: ToProcess) => void>()
  const came = new Map<string, ToProcess>()
  let accept = (socket: Socket): unknown => socket.destroy()
  process.on('message', (message: ToProcess, socket: Socket | undefined) => {
    if (message.event === 'connection') return socket && accept(socket)
    came.set(message.event, message)
    waiting.get(message.event)?.(message)
  })
  // A terminal sends SIGINT for Ctrl-C to both processes, but only the supervisor handles it.
  process.on('SIGINT', () => {})
  const onDisconnect = () => {
    const take = waiting.get('close')
    if (take) take({ event: 'close' })
    else process.exit()
  }
  process.on('disconnect', onDisconnect)
  return {
    /** Resolves to the message of this type once it has been received, which may have happened before the call. */
    next: <Event extends ToProcess['event']>(event: Event) =>
      new Promise<Extract<ToProcess, { event: Event }>>((resolve) => {
        const take = resolve as (message: ToProcess) => void
        const message = came.get(event)
        if (message) take(message)
        else waiting.set(event, take)
      }),
    /** Makes a server handle the connections sent by the supervisor. */
    connections: (server: Server) => {
      // Without this event, Node.js does not close idle and slow connections.
      server.emit('listening')
      accept = (socket) => {
        server.emit('connection', socket)
        socket.resume()
      }
    },
    close: () => {
      process.off('disconnect', onDisconnect)
      if (process.connected) process.disconnect()
    },
  }
}
