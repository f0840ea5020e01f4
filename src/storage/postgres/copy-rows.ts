import type pg from 'pg'
import type { CellType } from '../engine.ts'
import type { CsvBlock } from '../snapshots/snapshot.ts'
import { startCopy } from './copy.ts'

/**
 * Yields the rows of `copy … to stdout` in pages of about 64 KiB. Applies backpressure: does not read the connection
 * until the consumer requests the next page. A consumer that stops early must close the client.
 */
export async function* copyRows(
  client: pg.Client,
  text: string,
  types: readonly CellType[],
): AsyncIterable<unknown[][]> {
  const read = rowReader(types)
  const next = startCopy(client, text, '\n')
  for (let block = await next(); block !== undefined; block = await next()) yield read(block.bytes.toString())
}

/**
 * Yields the records of `copy … to stdout (format csv)`, ended by CRLF (RFC 4180), with the backpressure of `copyRows`.
 */
export async function* copyCsv(client: pg.Client, text: string): AsyncIterable<CsvBlock> {
  const next = startCopy(client, text, '\r\n')
  for (let block = await next(); block !== undefined; block = await next()) {
    yield { rows: block.rows, records: block.bytes }
  }
}

/** Returns a parser for COPY's text format: cells separated by tabs, `\N` for null, backslash escapes. */
export function rowReader(types: readonly CellType[]): (lines: string) => unknown[][] {
  const columns = types.map((type, at) => ({ type, at }))
  const numbers = columns.filter(({ type }) => type === 'integer' || type === 'number').map(({ at }) => at)
  const booleans = columns.filter(({ type }) => type === 'boolean').map(({ at }) => at)
  const readCells = (row: unknown[]) => {
    for (const at of numbers) if (row[at] !== null) row[at] = Number(row[at])
    for (const at of booleans) if (row[at] !== null) row[at] = row[at] === '1'
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
