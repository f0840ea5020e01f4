import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

export interface LingerOptions {
  later: (ms: number, run: () => void) => () => void
}

/** A socket with what the HTTP parser of Node.js is at. */
type Parsed = Socket & { parser?: { incoming?: IncomingMessage | null } | null }

const lookEveryMs = 2_000
const maxLooks = 15
const maxBytes = 67_108_864

/**
 * Makes a server linger wherever it closes a connection on which a request is still arriving, whoever refused that
 * request. Node.js would destroy the socket as soon as the answer is out, and it calls this method of it to do so.
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
 * Closes a connection in stages (RFC 9112 §9.6): nothing is said any more, and what the client still sends is read past
 * until it ends, or is silent, or too long at it. To bytes that nobody reads TCP answers with a reset, which takes the
 * answer from a client that has not read it yet.
 */
export function linger(socket: Socket, { later }: LingerOptions): void {
  let bytes = 0
  let cancel = () => {}
  const watch = (looks: number, before: number) => {
    cancel = later(lookEveryMs, () => {
      if (looks === maxLooks || bytes === before) socket.destroy()
      else watch(looks + 1, bytes)
    })
  }
  socket.end()
  // The parser among them: no more requests are read.
  socket.removeAllListeners('data')
  socket.on('data', ({ length }: Buffer) => {
    bytes += length
    if (bytes > maxBytes) socket.destroy()
  })
  socket.once('close', () => cancel())
  socket.resume()
  watch(1, 0)
}
