import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { lengthOf, statusOf } from '../../bench/http.ts'

/** The outcomes of a run's requests. */
export interface Fates {
  /** The number of requests written completely to the socket. */
  written: number
  answered: number
  /** The ids of written requests whose connection was reset before the response. */
  reset: string[]
  /**
   * The ids of written requests whose connection was closed gracefully without a response; the access log shows which of
   * them were handled.
   */
  ended: string[]
  /** The number of 503 responses without Retry-After. */
  bare503: number
  /** The number of requests that were not sent because the connection was refused, or reset beforehand. */
  refused: number
  /** The number of responses with `Connection: close`. */
  last: number
  statuses: Record<number, number>
}

export const noFates = (): Fates => ({
  ...{ written: 0, answered: 0, reset: [], ended: [], bare503: 0, refused: 0, last: 0, statuses: {} },
})

export interface ClientOptions {
  port: number
  tls: boolean
  /** Returns the text of the request with this id. */
  request: (id: string) => string
  fates: Fates
}

interface Connection {
  socket: Socket
  ready: boolean
  /** The id of the written request that has no response yet. */
  id: string | null
  /** Whether that request was written completely. */
  isWritten: boolean
  bytes: Buffer
  /**
   * True once no more requests may be sent: a response had `Connection: close`, or the service closed the connection.
   */
  over: boolean
}

/**
 * Creates a well-behaved client that sends one request at a time on one keep-alive connection. It sends nothing on a
 * connection that was closed or that received `Connection: close`.
 */
export function keepAliveClient(options: ClientOptions): { send: (id: string) => void; close: () => void } {
  let current: Connection | null = null
  let next: string | null = null
  const write = (connection: Connection, id: string) => {
    connection.id = id
    connection.socket.write(options.request(id), (error) => {
      connection.isWritten = !error
      if (!error) options.fates.written++
    })
  }
  return {
    /** Sends a request, connecting first if necessary. Does nothing while connecting or waiting for a response. */
    send: (id) => {
      if (current && !current.over) {
        if (current.ready && current.id === null) write(current, id)
        return
      }
      next = id
      current = open(options, (connection) => {
        if (next !== null) write(connection, next)
        next = null
      })
    },
    close: () => current?.socket.destroy(),
  }
}

function open(options: ClientOptions, onReady: (connection: Connection) => void): Connection {
  const { port, tls, fates } = options
  const to = { port, host: '127.0.0.1', noDelay: true }
  const socket = tls ? connectTls({ ...to, rejectUnauthorized: false }) : connectTcp(to)
  const unsent = { isWritten: false, bytes: Buffer.alloc(0), over: false }
  const connection: Connection = { socket, ready: false, id: null, ...unsent }
  socket.once(tls ? 'secureConnect' : 'connect', () => {
    connection.ready = true
    onReady(connection)
  })
  socket.on('data', (chunk: Buffer) => receive(connection, chunk, fates))
  socket.on('end', () => {
    connection.over = true
  })
  socket.on('error', ({ code }: NodeJS.ErrnoException) => {
    connection.over = true
    if (!connection.ready) fates.refused++
    else if (connection.id !== null && (code === 'ECONNRESET' || code === 'EPIPE')) {
      // A request that was not completely written counts as refused.
      if (connection.isWritten) fates.reset.push(connection.id)
      else fates.refused++
      connection.id = null
    }
  })
  socket.on('close', () => {
    connection.over = true
    if (connection.id !== null) fates.ended.push(connection.id)
    connection.id = null
  })
  return connection
}

function receive(connection: Connection, chunk: Buffer, fates: Fates): void {
  connection.bytes = Buffer.concat([connection.bytes, chunk])
  const { bytes } = connection
  const length = lengthOf(bytes)
  if (length === 0 || length > bytes.length || connection.id === null) return
  const head = bytes.subarray(0, length).toString('latin1').split('\r\n\r\n', 1)[0] ?? ''
  const status = statusOf(bytes)
  fates.answered++
  fates.statuses[status] = (fates.statuses[status] ?? 0) + 1
  if (status === 503 && !/^retry-after: \d+\r?$/im.test(head)) fates.bare503++
  connection.id = null
  connection.isWritten = false
  connection.bytes = bytes.subarray(length)
  if (/^connection: close\r?$/im.test(head)) {
    fates.last++
    connection.over = true
  }
}
