import type pg from 'pg'

/** A query that handles the protocol messages itself; `pg` calls these methods. */
interface Submittable {
  submit: (connection: { query: (text: string) => void; stream: Socket }) => void
  handleCommandComplete: () => void
  handleReadyForQuery: () => void
  handleError: (error: Error) => void
}

type Bytes = (chunk: Buffer) => void

interface Socket {
  pause: () => void
  resume: () => void
  listeners: (event: 'data') => Bytes[]
  on: (event: 'data', listener: Bytes) => void
  off: (event: 'data', listener: Bytes) => void
}

/** Complete rows with their line endings, in a buffer that is later reused. */
export interface Block {
  rows: number
  bytes: Buffer
}

/** The line ending of each row: the server's line feed, or a CRLF that replaces it. */
export type LineEnd = '\n' | '\r\n'

/**
 * Runs `copy … to stdout`; each call to the returned function resolves with the next block of rows, or undefined after
 * the last. Reads the connection's bytes directly until the copy ends, because `pg` would emit an event for each row,
 * which takes longer than processing the row. All other messages are passed to `pg` unchanged.
 */
export function startCopy(client: pg.Client, text: string, lineEnd: LineEnd): () => Promise<Block | undefined> {
  const blocks: Block[] = []
  // Reused: with a new buffer per block, memory would grow faster than it is garbage-collected.
  const spareBuffers: Buffer[] = []
  let current: Block | undefined
  let ended = false
  let failure: Error | undefined
  let socket: Socket | undefined
  let wake = () => {}
  const end = (error?: Error) => {
    failure = error
    ended = true
    // The next query on this connection must receive its own messages.
    socket?.resume()
    wake()
  }
  const query: Submittable = {
    submit: (connection) => {
      socket = connection.stream
      takeOver(connection.stream, lineEnd, (block) => {
        blocks.push(block)
        socket?.pause()
        wake()
        return spareBuffers.pop()
      })
      connection.query(text)
    },
    handleCommandComplete: () => {},
    handleReadyForQuery: () => end(),
    handleError: end,
  }
  client.query(query as unknown as pg.Submittable)
  return async () => {
    if (current) spareBuffers.push(Buffer.from(current.bytes.buffer))
    while (blocks.length === 0 && !ended) {
      const { promise, resolve } = Promise.withResolvers<void>()
      wake = resolve
      socket?.resume()
      await promise
    }
    if (failure) throw failure
    current = blocks.shift()
    return current
  }
}

/**
 * Passes the rows to `onBlock`, which may return a buffer for reuse. Forwards other messages, and everything after the
 * rows, to the original listeners.
 */
function takeOver(socket: Socket, lineEnd: LineEnd, onBlock: (block: Block) => Buffer | undefined): void {
  const originalListeners = socket.listeners('data')
  const forward: Bytes = (bytes) => {
    for (const listener of originalListeners) listener(bytes)
  }
  let pending = emptyBuffer()
  const onData: Bytes = (chunk) => {
    append(pending, chunk)
    const isOver = compactRows(pending, lineEnd, forward)
    const { bytes, rows, rowsEnd, messageStart, filled } = pending
    const rest = bytes.subarray(messageStart, filled)
    if (rowsEnd >= blockBytes || (isOver && rows > 0)) {
      pending = append(emptyBuffer(onBlock({ rows, bytes: bytes.subarray(0, rowsEnd) })), rest)
    }
    if (!isOver) return
    socket.off('data', onData)
    for (const listener of originalListeners) socket.on('data', listener)
    forward(rest)
  }
  for (const listener of originalListeners) socket.off('data', listener)
  socket.on('data', onData)
}

/**
 * Received bytes: complete rows up to `rowsEnd`, then a gap, then the start of the next message between `messageStart`
 * and `filled`.
 */
interface PendingBytes {
  bytes: Buffer
  rows: number
  rowsEnd: number
  messageStart: number
  filled: number
}

const blockBytes = 65_536

/** Creates a buffer with room for one incomplete block and one socket read. */
const emptyBuffer = (bytes: Buffer = Buffer.allocUnsafeSlow(2 * blockBytes)): PendingBytes => {
  return { bytes, rows: 0, rowsEnd: 0, messageStart: 0, filled: 0 }
}

function append(pending: PendingBytes, chunk: Buffer): PendingBytes {
  const { bytes, filled } = pending
  const needed = filled + chunk.length
  if (needed > bytes.length) {
    // Doubled, so that even a large row is copied only a few times.
    pending.bytes = Buffer.allocUnsafeSlow(2 * needed)
    pending.bytes.set(bytes.subarray(0, filled))
  }
  pending.bytes.set(chunk, filled)
  pending.filled = needed
  return pending
}

/** Message types: a row, the end of the rows, and an error that ends the copy. */
const [copyData, copyDone, errorResponse] = Buffer.from('dcE')
const [carriageReturn, lineFeed] = Buffer.from('\r\n') as unknown as [number, number]
const headerBytes = 5

/** Moves complete rows to the front of the buffer without gaps; returns true once the copy has ended. */
function compactRows(pending: PendingBytes, lineEnd: LineEnd, forward: Bytes): boolean {
  const { bytes, filled } = pending
  let { rows, rowsEnd, messageStart } = pending
  let isOver = false
  while (filled - messageStart >= headerBytes) {
    const type = bytes[messageStart]
    isOver = type === copyDone || type === errorResponse
    const end = messageStart + 1 + bytes.readUInt32BE(messageStart + 1)
    if (isOver || end > filled) break
    if (type === copyData) {
      bytes.copyWithin(rowsEnd, messageStart + headerBytes, end)
      rowsEnd += end - messageStart - headerBytes
      // The extra byte fits, because the message header has been removed.
      if (lineEnd === '\r\n') {
        bytes[rowsEnd - 1] = carriageReturn
        bytes[rowsEnd++] = lineFeed
      }
      rows += 1
    } else forward(bytes.subarray(messageStart, end))
    messageStart = end
  }
  Object.assign(pending, { rows, rowsEnd, messageStart })
  return isOver
}
