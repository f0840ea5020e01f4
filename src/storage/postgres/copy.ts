import type pg from 'pg'

/** What `pg` calls on a query that speaks the protocol itself. */
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

/** Whole rows with their line ends, at the start of a buffer that is reused. */
export interface Block {
  rows: number
  bytes: Buffer
}

/** What ends a row: the server's line feed, or the CRLF that replaces it. */
export type LineEnd = '\n' | '\r\n'

/**
 * Runs `copy … to stdout` and returns its rows in blocks on request. It takes over the connection's bytes until the copy
 * ends: `pg` would emit an event for each row, which takes longer than the row itself. Other messages pass to `pg`
 * unchanged.
 */
export function copying(client: pg.Client, text: string, lineEnd: LineEnd): () => Promise<Block | undefined> {
  const blocks: Block[] = []
  // Reused, because a new buffer per block would fill the memory faster than the garbage collector frees it.
  const spare: Buffer[] = []
  let taken: Block | undefined
  let ended = false
  let failure: Error | undefined
  let socket: Socket | undefined
  let wake = () => {}
  const end = (error?: Error) => {
    failure = error
    ended = true
    // The next user of the connection must receive its messages.
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
        return spare.pop()
      })
      connection.query(text)
    },
    handleCommandComplete: () => {},
    handleReadyForQuery: () => end(),
    handleError: end,
  }
  client.query(query as unknown as pg.Submittable)
  return async () => {
    if (taken) spare.push(Buffer.from(taken.bytes.buffer))
    while (blocks.length === 0 && !ended) {
      const { promise, resolve } = Promise.withResolvers<void>()
      wake = resolve
      socket?.resume()
      await promise
    }
    if (failure) throw failure
    taken = blocks.shift()
    return taken
  }
}

/**
 * Passes the rows to `copied`, which may return a buffer for reuse; other messages, and everything after the rows, go to
 * the previous listeners.
 */
function takeOver(socket: Socket, lineEnd: LineEnd, copied: (block: Block) => Buffer | undefined): void {
  const theirs = socket.listeners('data')
  const give: Bytes = (bytes) => {
    for (const listener of theirs) listener(bytes)
  }
  let gathered = emptied()
  const ours: Bytes = (chunk) => {
    append(gathered, chunk)
    const over = join(gathered, lineEnd, give)
    const { bytes, rows, to, at, filled } = gathered
    const rest = bytes.subarray(at, filled)
    if (to >= blockBytes || (over && rows > 0)) {
      gathered = append(emptied(copied({ rows, bytes: bytes.subarray(0, to) })), rest)
    }
    if (!over) return
    socket.off('data', ours)
    for (const listener of theirs) socket.on('data', listener)
    give(rest)
  }
  for (const listener of theirs) socket.off('data', listener)
  socket.on('data', ours)
}

/** Rows moved together up to `to`, then a gap, and from `at` to `filled` the received part of the next messages. */
interface Gathered {
  bytes: Buffer
  rows: number
  to: number
  at: number
  filled: number
}

const blockBytes = 65_536

/** Holds one incomplete COPY block plus one socket read. */
const emptied = (bytes: Buffer = Buffer.allocUnsafeSlow(2 * blockBytes)): Gathered => {
  return { bytes, rows: 0, to: 0, at: 0, filled: 0 }
}

function append(gathered: Gathered, chunk: Buffer): Gathered {
  const { bytes, filled } = gathered
  const needed = filled + chunk.length
  if (needed > bytes.length) {
    // Doubled, so that a row of any size is copied only a few times.
    gathered.bytes = Buffer.allocUnsafeSlow(2 * needed)
    gathered.bytes.set(bytes.subarray(0, filled))
  }
  gathered.bytes.set(chunk, filled)
  gathered.filled = needed
  return gathered
}

/** First bytes of messages: a row, the end of the rows, and an error instead of it. */
const [copyData, copyDone, errorResponse] = Buffer.from('dcE')
const [carriageReturn, lineFeed] = Buffer.from('\r\n') as unknown as [number, number]
const headBytes = 5

/** Moves the complete rows together in place; returns true when the copy is over. */
function join(gathered: Gathered, lineEnd: LineEnd, give: Bytes): boolean {
  const { bytes, filled } = gathered
  let { rows, to, at } = gathered
  let over = false
  while (filled - at >= headBytes) {
    const type = bytes[at]
    over = type === copyDone || type === errorResponse
    const end = at + 1 + bytes.readUInt32BE(at + 1)
    if (over || end > filled) break
    if (type === copyData) {
      bytes.copyWithin(to, at + headBytes, end)
      to += end - at - headBytes
      // There is room: a message header is longer than the extra byte.
      if (lineEnd === '\r\n') {
        bytes[to - 1] = carriageReturn
        bytes[to++] = lineFeed
      }
      rows += 1
    } else give(bytes.subarray(at, end))
    at = end
  }
  Object.assign(gathered, { rows, to, at })
  return over
}
