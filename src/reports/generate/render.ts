import type { FinishedResult, ResultStore } from '../../files/store.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { LongRead } from '../../storage/snapshots/long-read.ts'
import { type CsvBlock, type Snapshot, SumOutOfRange } from '../../storage/snapshots/snapshot.ts'
import { csv, csvFile } from '../formats/csv.ts'
import type { ReportColumn, ReportFormat } from '../formats/format.ts'
import { formats } from '../formats/formats.ts'

/** A report's input as plain data, so that it can be sent to a thread. */
export interface RenderJob {
  /** The key under which the result is stored. */
  resultKey: string
  format: string
  title: string
  columns: readonly ReportColumn[]
  read: LongRead
  /** When the report is generated, in ISO 8601. */
  madeAt: string
  /** Path to a TrueType or OpenType file for characters that PDF's standard fonts cannot render. */
  pdfFont: string | null
}

export interface RenderResult extends FinishedResult {
  rowCount: number
}

export interface Bounds {
  rows: number
  bytes: number
}

export const bounds: Bounds = { rows: 10_000_000, bytes: 5 * 1_024 ** 3 }

/** Called periodically with the fraction of rows processed, from 0 to 1. */
export type OnProgress = (share: number) => void | Promise<void>

/**
 * Generates one report and stores the result. Throws a `Problem` for errors that a retry would not fix. After an error,
 * no result is left behind.
 */
export async function renderReport(
  order: RenderJob,
  { snapshot, results, limits = bounds }: { snapshot: Snapshot; results: ResultStore; limits?: Bounds },
  onProgress: OnProgress,
): Promise<RenderResult> {
  const format = formats.get(order.format) as ReportFormat
  const rowCount = await snapshot.count(order.read)
  refuseTooLarge(rowCount, Math.min(format.maxRows ?? limits.rows, limits.rows))
  const writer = await results.create(order.resultKey)
  try {
    for await (const chunk of rendered(order, format, { snapshot, rowCount, onProgress })) {
      await writer.write(chunk)
      if (writer.sizeBytes() > limits.bytes) throw tooLarge(`more than ${limits.bytes.toLocaleString('en')} bytes`)
    }
    return { rowCount, ...(await writer.finish()) }
  } catch (error) {
    await writer.discard()
    throw error instanceof SumOutOfRange ? outOfRange(error) : error
  }
}

function refuseTooLarge(rowCount: number, max: number): void {
  if (rowCount > max)
    throw tooLarge(`${rowCount.toLocaleString('en')} rows, more than the maximum of ${max.toLocaleString('en')}`)
}

const outOfRange = (cause: SumOutOfRange) =>
  new Problem('VALIDATION_ERROR', 'A sum is too large for its column: narrow the report, or declare decimals', {
    cause,
  })

const tooLarge = (what: string) => new Problem('VALIDATION_ERROR', `The report is too large: it has ${what}`)

interface Source {
  snapshot: Snapshot
  rowCount: number
  onProgress: OnProgress
}

/** Yields the file in chunks. The database writes the records of a CSV file itself if it can. */
function rendered(order: RenderJob, format: ReportFormat, source: Source): AsyncIterable<Uint8Array | string> {
  const { title, columns, madeAt, pdfFont, read } = order
  const { snapshot, rowCount } = source
  const written = format === csv ? snapshot.csv?.(read) : undefined
  if (written) return csvFile(columns, counted(written, source))
  const sheet = { title, columns, rowCount, madeAt, font: pdfFont }
  return format.render(sheet, counted(snapshot.pages(read), source))
}

/** Reports progress after each page or block of rows. */
async function* counted<Part extends unknown[][] | CsvBlock>(
  parts: AsyncIterable<Part>,
  { rowCount, onProgress }: Source,
): AsyncIterable<Part> {
  let rows = 0
  for await (const part of parts) {
    yield part
    rows += Array.isArray(part) ? part.length : part.rows
    await onProgress(rows / rowCount)
  }
}
