import type { DecimalForm } from '../../http/decimal.ts'
import type { CellType } from '../../storage/engine.ts'

/** A column of a report; its cells are values of its type, or null. */
export interface ReportColumn {
  name: string
  type: CellType
  /** The decimal's format. If set, the report sorts this column as an integer without the decimal point. */
  decimal?: DecimalForm
}

/** The properties of a report file, apart from its rows. */
export interface Sheet {
  title: string
  columns: readonly ReportColumn[]
  /** The number of rows that will follow. */
  rowCount: number
  /** When the report was generated, in ISO 8601. */
  madeAt: string
  /** Path to a font file that covers many scripts, for formats that embed fonts. */
  font: string | null
}

/** Rows as arrays of cells, in the order of the columns; a row may have additional cells at the end. */
export type Pages = AsyncIterable<unknown[][]>

/** The names of all formats, as used in report requests. */
export const formatNames = ['json', 'csv', 'ndjson', 'xlsx', 'pdf'] as const

export type FormatName = (typeof formatNames)[number]

/** An output format of reports. */
export interface ReportFormat {
  name: FormatName
  mediaType: string
  extension: string
  /** Reports with more rows are rejected. */
  maxRows?: number
  /** Yields the file in chunks. */
  render: (sheet: Sheet, pages: Pages) => AsyncIterable<string | Uint8Array>
}

export const isNumeric = ({ type }: ReportColumn): boolean => type === 'integer' || type === 'number'

/** Returns whether a column's cells are right-aligned. */
export const isRightAligned = (column: ReportColumn): boolean => isNumeric(column) || column.type === 'decimal'
