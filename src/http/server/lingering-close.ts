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
 * Makes a server linger whenever it closes a connection on which a request is still arriving. Node.js would call
 * `destroySoon` to destroy the socket as soon as the response is sent; this function replaces that method.
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
 * Closes a connection in stages (RFC 9112 §9.6): ends the write side and discards incoming data until the client closes
 * the connection, goes silent, or exceeds the time or byte limit. If the connection were closed immediately, TCP would
 * reset it, and the client could lose a response that it had not yet read.
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
  // This also detaches the parser, so it reads no more requests.
  socket.removeAllListeners('data')
  socket.on('data', ({ length }: Buffer) => {
    bytes += length
    if (bytes > maxBytes) socket.destroy()
  })
  socket.once('close', () => cancel())
  socket.resume()
  watch(1, 0)
}
