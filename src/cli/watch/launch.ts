import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { FromProcess, ToProcess } from './messages.ts'

/** A process that serves one version of the definition. */
export interface ServedProcess {
  /** Loads the definition. Resolves to false if the process exits instead, after printing the reason. */
  load: () => Promise<boolean>
  /** Starts the service. Resolves to false if the process exits instead, after printing the reason. */
  serve: (isFirst: boolean) => Promise<boolean>
  /** Sends a connection to the process; closes the connection if the process has ended. */
  forward: (socket: Socket) => void
  /**
   * Closes the service, if it was started, and ends the process. Resolves once the service is closed; the process may
   * exit slightly later.
   */
  end: () => Promise<void>
  ended: Promise<unknown>
}

interface LaunchOptions {
  args: readonly string[]
  env: NodeJS.ProcessEnv
  /** Receives the files that the definition imports. */
  onImported: (files: readonly string[]) => void
}

/** Starts a process, which imports Plinth's own modules and then waits for `load`. */
export function launch({ args, env, onImported }: LaunchOptions): ServedProcess {
  const child = fork(process.argv[1] as string, args, { env })
  let isServing = false
  let isRunning = true
  const ended = once(child, 'exit').finally(() => {
    isRunning = false
  })
  // The process may exit before it has received a message or a connection.
  const send = (message: ToProcess, socket?: Socket) =>
    void (child.connected && child.send(message, socket, {}, (error) => error && socket?.destroy()))
  const events = new Set<string>()
  let wake = () => {}
  child.on('message', (message: FromProcess) => {
    if (message.event === 'imported') onImported(message.files)
    events.add(message.event)
    wake()
  })
  const reached = (event: FromProcess['event']) =>
    new Promise<boolean>((resolve) => {
      wake = () => events.has(event) && resolve(true)
      wake()
      void ended.then(() => resolve(false))
    })
  return {
    load: () => {
      send({ event: 'load' })
      return reached('loaded')
    },
    serve: (isFirst) => {
      isServing = true
      send({ event: 'serve', isFirst })
      return reached('ready')
    },
    forward: (socket) => (isRunning && !socket.destroyed ? send({ event: 'connection' }, socket) : socket.destroy()),
    end: async () => {
      if (isServing) {
        send({ event: 'close' })
        await reached('closed')
        return
      }
      if (child.connected) child.disconnect()
      await ended
    },
    ended,
  }
}
