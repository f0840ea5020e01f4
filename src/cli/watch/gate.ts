import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'

/** Handles a connection, for example by sending it to the serving process. */
export type Forward = (socket: Socket) => void

/** The listener of the service, which stays open while one process replaces another. */
export interface Gate {
  port: number
  /** Passes the held connections and, from now on, all new ones to `forward`. */
  open: (forward: Forward) => void
  /** From now on, holds new connections until `open` or `refuse`. */
  hold: () => void
  /** Closes the held connections and, from now on, all new ones. */
  refuse: () => void
  close: () => void
}

/** Listens on an address. Rejects if that is not possible. */
export async function openGate({ host, port }: { host: string; port: number }): Promise<Gate> {
  const held: Socket[] = []
  const holding: Forward = (socket) => held.push(socket)
  let forward = holding
  // Paused, so that the other process reads all data.
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    socket.on('error', () => socket.destroy())
    forward(socket)
  })
  await once(server.listen(port, host), 'listening')
  const release = (to: Forward) => {
    forward = to
    for (const socket of held.splice(0)) to(socket)
  }
  return {
    port: (server.address() as AddressInfo).port,
    open: release,
    hold: () => {
      forward = holding
    },
    refuse: () => release((socket) => socket.destroy()),
    close: () => {
      release((socket) => socket.destroy())
      server.close()
    },
  }
}
