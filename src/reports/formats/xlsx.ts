import { Readable } from 'node:stream'
import type { Pages, ReportFormat, Sheet } from './format.ts'
import { rowsPerSheet, worksheet } from './xlsx-sheet.ts'
import { parts, sheetPath } from './xlsx-workbook.ts'

/** Deflate's quickest level: half the size of none, and a third of the time of the usual one. */
const compressionLevel = 1

/** An Office Open XML workbook (ECMA-376): real numbers and dates, a frozen header line, sheets of a million rows. */
export const xlsx: ReportFormat = {
  name: 'xlsx',
  mediaType: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  extension: 'xlsx',
  render: async function* (sheet, pages) {
    // Loaded where it is used: other reports do not carry it in memory.
    const { ZipFile } = await import('yazl')
    const zip = new ZipFile()
    const output = zip.outputStream as Readable
    const fail = (error: unknown) => void output.destroy(error as Error)
    zip.on('error', fail)
    // Whoever reads the output gets the error; until then it must not end the process.
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

/** Text as a stream of blocks of one size, whose memory is used again by the system's allocator. */
function blocks(texts: AsyncIterable<string>): Readable {
  return Readable.from(encoded(texts), { objectMode: false, highWaterMark: blockBytes })
}

async function* encoded(texts: AsyncIterable<string>): AsyncIterable<Buffer> {
  for await (const text of texts) yield Buffer.from(text)
}

/** The worksheets one after the other: each takes as many rows from the same pages as fit into it. */
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
