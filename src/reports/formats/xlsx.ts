import { Readable } from 'node:stream'
import type { Pages, ReportFormat, Sheet } from './format.ts'
import { rowsPerSheet, worksheet } from './xlsx-sheet.ts'
import { parts, sheetPath } from './xlsx-workbook.ts'

/** Deflate's fastest level: halves the size in a third of the time that the default level takes. */
const compressionLevel = 1

/**
 * An Office Open XML workbook (ECMA-376) with real numbers and dates, a frozen header line, and at most about a
 * million rows per sheet.
 */
export const xlsx: ReportFormat = {
  name: 'xlsx',
  mediaType: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  extension: 'xlsx',
  render: async function* (sheet, pages) {
    // Loaded on demand, so that other reports do not keep it in memory.
    const { ZipFile } = await import('yazl')
    const zip = new ZipFile()
    const output = zip.outputStream as Readable
    const fail = (error: unknown) => void output.destroy(error as Error)
    zip.on('error', fail)
    // Without this listener, an error would crash the process before the consumer of the output receives it.
    output.on('error', () => {})
    const options = { mtime: new Date(sheet.madeAt), compressionLevel }
    const sheets = Math.max(Math.ceil(sheet.rowCount / rowsPerSheet), 1)
    for (const [path, text] of parts(sheet, sheets)) zip.addBuffer(Buffer.from(text), path, options)
    for (const [at, part] of split(sheet, pages, sheets).entries()) {
      zip.addReadStreamLazy(sheetPath(at), options, (done) => done(null, blocks(part).on('error', fail)))
    }
    zip.end()
    yield* output
  },
}

const blockBytes = 65_536

/** Converts text to a stream of bytes, which reads ahead until `blockBytes` are buffered. */
function blocks(texts: AsyncIterable<string>): Readable {
  return Readable.from(encoded(texts), { objectMode: false, highWaterMark: blockBytes })
}

async function* encoded(texts: AsyncIterable<string>): AsyncIterable<Buffer> {
  for await (const text of texts) yield Buffer.from(text)
}

/** Returns the worksheets. They must be read in order: each takes as many rows as fit from the shared pages. */
function split(sheet: Sheet, pages: Pages, sheets: number): AsyncIterable<string>[] {
  const rows = pages[Symbol.asyncIterator]()
  let rest: unknown[][] = []
  async function* take(): Pages {
    for (let room = rowsPerSheet; room > 0; ) {
      const page = rest.length > 0 ? rest : (await rows.next()).value
      if (page === undefined) return
      rest = page.slice(room)
      yield rest.length > 0 ? page.slice(0, room) : page
      room -= page.length - rest.length
    }
  }
  return Array.from({ length: sheets }, () => worksheet(sheet.columns, take()))
}
