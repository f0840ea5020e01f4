import { connect, type Socket } from 'node:net'
import { connect as secureConnect } from 'node:tls'
import { requestText } from './http.ts'

/** The program's input, as JSON in the environment variable `READERS`. */
export interface ReadersOrder {
  port: number
  tls: boolean
  headers: Record<string, string>
  /** The number of open streams. */
  count: number
  /** The paths of the streams, used in rotation. */
  paths: string[]
}

/** Number of streams opened at the same time; the service might reject more with 503. */
const openedAtOnce = 10

/**
 * Opens event streams and discards their data, using as little CPU time as possible. Reports when all streams are open;
 * exits with 1 if a stream is rejected or ends.
 */
const { port, tls, headers, count, paths } = JSON.parse(String(process.env.READERS)) as ReadersOrder
const buffer = Buffer.alloc(65_536)
let [begun, open] = [0, 0]

for (let at = 0; at < openedAtOnce; at++) openNext()

function openNext(): void {
  if (begun === count) return
  const path = paths[begun++ % paths.length] as string
  let isOpen = false
  const receive = (size: number) => {
    if (isOpen) return true
    const status = buffer.toString('latin1', 9, Math.min(size, 12))
    if (status !== '200') return fail(`${path} returned ${status}`)
    isOpen = true
    if (++open === count) process.send?.('ready')
    openNext()
    return true
  }
  const options = { host: '127.0.0.1', port, onread: { buffer, callback: receive } }
  const socket: Socket = tls ? secureConnect({ ...options, rejectUnauthorized: false }) : connect(options)
  socket.on('error', ({ message }) => fail(message)).once('close', () => fail(`The stream of ${path} ended`))
  socket.write(requestText('GET', path, { ...headers, accept: 'text/event-stream' }))
}

function fail(message: string): boolean {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}
