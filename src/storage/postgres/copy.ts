import type pg from 'pg'

/** What `pg` calls on a query that speaks the protocol by itself. */
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

/** Whole rows, each with its line end, at the start of a buffer that is used again. */
export interface Block {
  rows: number
  bytes: Buffer
}

/** What ends a row: the server's line feed, or what it becomes. */
export type LineEnd = '\n' | '\r\n'

/**
 * Runs `copy … to stdout` and gives its rows in blocks, as they are asked for. It takes the connection's bytes until
 * the copy ends: `pg` would make an event of each row, which takes longer than the row. What is not a row goes to `pg`
 * as it came.
 */
export function copying(client: pg.Client, text: string, lineEnd: LineEnd): () => Promise<Block | undefined> {
  const blocks: Block[] = []
  // Buffers for each block would fill the memory faster than they are collected.
  const spare: Buffer[] = []
  let taken: Block | undefined
  let ended = false
  let failure: Error | undefined
  let socket: Socket | undefined
  let wake = () => {}
  const end = (error?: Error) => {
    failure = error
    ended = true
    // Whoever uses the connection next must hear of its answers.
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
 * Gives the rows to `copied`, which may give a buffer back that is no longer used; other messages, and all after the
 * rows, to whoever listened before.
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

/** Rows moved together up to `to`, then a gap, and from `at` to `filled` what has come of the next messages. */
interface Gathered {
  bytes: Buffer
  rows: number
  to: number
  at: number
  filled: number
}

const blockBytes = 65_536

/** With room for a block that lacks a byte and another read of the connection. */
const emptied = (bytes: Buffer = Buffer.allocUnsafeSlow(2 * blockBytes)): Gathered => {
  return { bytes, rows: 0, to: 0, at: 0, filled: 0 }
}

function append(gathered: Gathered, chunk: Buffer): Gathered {
  const { bytes, filled } = gathered
  const needed = filled + chunk.length
  if (needed > bytes.length) {
    // Doubled, so that a row of any size is moved a few times only.
    gathered.bytes = Buffer.allocUnsafeSlow(2 * needed)
    gathered.bytes.set(bytes.subarray(0, filled))
  }
  gathered.bytes.set(chunk, filled)
  gathered.filled = needed
  return gathered
}

/** First bytes of messages: a row, the end of the rows, and an error in their place. */
const [copyData, copyDone, errorResponse] = Buffer.from('dcE')
const [carriageReturn, lineFeed] = Buffer.from('\r\n') as unknown as [number, number]
const headBytes = 5

/** Moves the whole rows that have come together in their place; true when they are over. */
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
      // There is room: a message's head is longer.
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
