import type pg from 'pg'
import type { CellType } from './long-read.ts'

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

/**
 * The rows of `copy … to stdout` in pages of some tens of kilobytes. The server is held up, by not reading from its
 * connection, while nobody asks for the next page: one who stops asking has to close the client.
 */
export async function* copyRows(
  client: pg.Client,
  text: string,
  types: readonly CellType[],
): AsyncIterable<unknown[][]> {
  const read = rowReader(types)
  const next = copying(client, text)
  for (let block = await next(); block !== undefined; block = await next()) yield read(block)
}

/**
 * Takes the connection's bytes until the copy ends: `pg` would make an event of each row, which takes longer than
 * the row. What is not a row goes to `pg` as it came.
 */
function copying(client: pg.Client, text: string): () => Promise<string | undefined> {
  const blocks: string[] = []
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
      takeOver(connection.stream, (block) => {
        blocks.push(block)
        socket?.pause()
        wake()
      })
      connection.query(text)
    },
    handleCommandComplete: () => {},
    handleReadyForQuery: () => end(),
    handleError: end,
  }
  client.query(query as unknown as pg.Submittable)
  return async () => {
    while (blocks.length === 0 && !ended) {
      const { promise, resolve } = Promise.withResolvers<void>()
      wake = resolve
      socket?.resume()
      await promise
    }
    if (failure) throw failure
    return blocks.shift()
  }
}

/** First bytes of messages: a row, the end of the rows, and an error in their place. */
const [copyData, copyDone, errorResponse] = Buffer.from('dcE')
const headBytes = 5

/** Gives the rows of each chunk as text to `copied`; other messages, and all after the rows, to whoever listened before. */
function takeOver(socket: Socket, copied: (text: string) => void): void {
  const theirs = socket.listeners('data')
  const give: Bytes = (bytes) => {
    for (const listener of theirs) listener(bytes)
  }
  let rest: Buffer = Buffer.alloc(0)
  const ours: Bytes = (chunk) => {
    const bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk
    const { text, at, over } = joined(bytes, give)
    rest = bytes.subarray(at)
    if (text !== '') copied(text)
    if (!over) return
    socket.off('data', ours)
    for (const listener of theirs) socket.on('data', listener)
    give(rest)
  }
  for (const listener of theirs) socket.off('data', listener)
  socket.on('data', ours)
}

/** The whole rows of some bytes, moved together in their place; `at` is where the next message starts. */
function joined(bytes: Buffer, give: Bytes): { text: string; at: number; over: boolean } {
  let at = 0
  let to = 0
  let over = false
  while (bytes.length - at >= headBytes) {
    const type = bytes[at]
    over = type === copyDone || type === errorResponse
    const end = at + 1 + bytes.readUInt32BE(at + 1)
    if (over || end > bytes.length) break
    if (type === copyData) {
      bytes.copyWithin(to, at + headBytes, end)
      to += end - at - headBytes
    } else give(bytes.subarray(at, end))
    at = end
  }
  return { text: bytes.toString('utf8', 0, to), at, over }
}

/** Reads lines of the text format: cells between tabs, `\N` for null, backslashes before what would end a cell. */
export function rowReader(types: readonly CellType[]): (lines: string) => unknown[][] {
  const places = types.map((type, at) => ({ type, at }))
  const numbers = places.filter(({ type }) => type === 'integer' || type === 'number').map(({ at }) => at)
  const truths = places.filter(({ type }) => type === 'boolean').map(({ at }) => at)
  const readCells = (row: unknown[]) => {
    for (const at of numbers) if (row[at] !== null) row[at] = Number(row[at])
    for (const at of truths) if (row[at] !== null) row[at] = row[at] === '1'
    return row
  }
  return (text) => {
    const lines = text.split('\n')
    lines.length -= 1
    const isEscaped = text.includes('\\')
    return lines.map((line) => {
      const cells = line.split('\t')
      return readCells(isEscaped && line.includes('\\') ? cells.map(cellOf) : cells)
    })
  }
}

const escapes: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }
const cellOf = (cell: string) =>
  cell === '\\N' ? null : cell.replace(/\\(.)/g, (_, after: string) => escapes[after] ?? after)
