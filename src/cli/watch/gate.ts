import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'

/** Handles a connection, for example by sending it to the serving process. */
export type Forward = (socket: Socket) => void

/** The service's listener, which stays open while one process replaces another. */
export interface Gate {
  port: number
  /** Passes all held connections to `forward`, and then all new ones. */
  open: (forward: Forward) => void
  /** Holds new connections until the next call to `open` or `refuse`. */
  hold: () => void
  /** Closes all held connections, and then all new ones. */
  refuse: () => void
  close: () => void
}

/** Listens on an address. Rejects if listening fails. */
export async function openGate({ host, port }: { host: string; port: number }): Promise<Gate> {
  const held: Socket[] = []
  const holding: Forward = (socket) => held.push(socket)
  let forward = holding
  // Sockets are paused, so that the process that receives them reads all data.
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
