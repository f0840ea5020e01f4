import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

export interface LingerOptions {
  later: (ms: number, run: () => void) => () => void
}

/** A socket with the state of Node's HTTP parser. */
type Parsed = Socket & { parser?: { incoming?: IncomingMessage | null } | null }

const checkIntervalMs = 2_000
const maxChecks = 15
const maxBytes = 67_108_864

/**
 * Makes a server linger whenever it closes a connection on which a request is still arriving, for whatever reason. Node.js
 * would destroy the socket as soon as the response is sent; it does so through `destroySoon`, which this replaces.
 */
export function lingerOnClose(server: Server, options: LingerOptions): void {
  const install = (socket: Parsed) => {
    const destroySoon = socket.destroySoon.bind(socket)
    socket.destroySoon = () => {
      if (socket.writable && socket.parser?.incoming?.complete === false) linger(socket, options)
      else destroySoon()
    }
  }
  server.on('connection', install).on('secureConnection', install)
}

/**
 * Closes a connection in stages (RFC 9112 §9.6): ends the write side and discards incoming data until the client closes,
 * goes silent, or exceeds the time or byte limit. Closing immediately would make TCP reset the connection, and a client that
 * had not read the response yet would lose it.
 */
export function linger(socket: Socket, { later }: LingerOptions): void {
  let bytes = 0
  let cancel = () => {}
  const watch = (checks: number, before: number) => {
    cancel = later(checkIntervalMs, () => {
      if (checks === maxChecks || bytes === before) socket.destroy()
      else watch(checks + 1, bytes)
    })
  }
  socket.end()
  // This also detaches the parser, so no more requests are read.
  socket.removeAllListeners('data')
  socket.on('data', ({ length }: Buffer) => {
    bytes += length
    if (bytes > maxBytes) socket.destroy()
  })
  socket.once('close', () => cancel())
  socket.resume()
  watch(1, 0)
}
