import type { CellType } from '../../storage/engine.ts'

/** A column of a report; a cell of it is a value of the type, or null. */
export interface ReportColumn {
  name: string
  type: CellType
}

/** What a file is made of, besides its rows. */
export interface Sheet {
  title: string
  columns: readonly ReportColumn[]
  /** How many rows will come. */
  rowCount: number
  /** When the report was made, ISO 8601. */
  madeAt: string
  /** A font file of many scripts, for formats that show text themselves. */
  font: string | null
}

/** Rows as arrays of cells, in the order of the columns; a row may carry more cells behind them. */
export type Pages = AsyncIterable<unknown[][]>

/** An output format of reports. */
export interface ReportFormat {
  name: string
  mediaType: string
  extension: string
  /** A report of more rows is refused. */
  maxRows?: number
  /** The file in pieces; the next page of rows is taken when the pieces of the last one have been stored. */
  render: (sheet: Sheet, pages: Pages) => AsyncIterable<string | Uint8Array>
}

export const isNumeric = ({ type }: ReportColumn): boolean => type === 'integer' || type === 'number'
