import type pg from 'pg'
import type { CellType } from './long-read.ts'

/** What `pg` calls on a query that speaks the protocol by itself. */
interface Submittable {
  submit: (connection: { query: (text: string) => void; stream: Socket }) => void
  handleCopyData: (message: { chunk: Buffer }) => void
  handleCommandComplete: () => void
  handleReadyForQuery: () => void
  handleError: (error: Error) => void
}

interface Socket {
  pause: () => void
  resume: () => void
}

/**
 * The rows of `copy … to stdout` in pages. The server is held up, by not reading from its connection, while nobody asks
 * for the next page: one who stops asking has to close the client.
 */
export async function* copyRows(
  client: pg.Client,
  text: string,
  types: readonly CellType[],
  pageRows: number,
): AsyncIterable<unknown[][]> {
  const next = copying(client, text, rowReader(types), pageRows)
  for (let page = await next(); page.length > 0; page = await next()) yield page
}

function copying(client: pg.Client, text: string, read: (line: string) => unknown[], pageRows: number) {
  let rows: unknown[][] = []
  let ended = false
  let failure: Error | undefined
  let socket: Socket | undefined
  let wake = () => {}
  const query: Submittable = {
    submit: (connection) => {
      socket = connection.stream
      connection.query(text)
    },
    // Each message is one row, ended by a line feed. Its bytes are good until the next message.
    handleCopyData: ({ chunk }) => {
      rows.push(read(chunk.toString('utf8', 0, chunk.length - 1)))
      if (rows.length !== pageRows) return
      socket?.pause()
      wake()
    },
    handleCommandComplete: () => {},
    handleReadyForQuery: () => {
      ended = true
      wake()
    },
    handleError: (error) => {
      failure = error
      ended = true
      wake()
    },
  }
  client.query(query as unknown as pg.Submittable)
  return async () => {
    while (rows.length < pageRows && !ended) {
      const { promise, resolve } = Promise.withResolvers<void>()
      wake = resolve
      socket?.resume()
      await promise
    }
    if (failure) throw failure
    const page = rows
    rows = []
    return page
  }
}

/** Reads a line of the text format: cells between tabs, `\N` for null, backslashes before what would end a cell. */
export function rowReader(types: readonly CellType[]): (line: string) => unknown[] {
  const isNumber = types.map((type) => type === 'integer' || type === 'number')
  const isTruth = types.map((type) => type === 'boolean')
  return (line) => {
    const row: unknown[] = line.split('\t')
    const escaped = line.includes('\\')
    for (let at = 0; at < row.length; at++) {
      const cell = row[at] as string
      if (escaped && cell.includes('\\')) row[at] = cell === '\\N' ? null : unescaped(cell)
      if (isNumber[at] && row[at] !== null) row[at] = Number(row[at])
      else if (isTruth[at] && row[at] !== null) row[at] = row[at] === '1'
    }
    return row
  }
}

const escapes: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }
const unescaped = (cell: string) => cell.replace(/\\(.)/g, (_, after: string) => escapes[after] ?? after)
