import { csv } from './formats/csv.ts'
import { json } from './formats/json.ts'
import type { ReportColumn } from './kinds.ts'

/** One file in the making, text by text: the start, then the rows page by page, then the end. */
export interface Rendering {
  start: string
  rows: (rows: unknown[][]) => string
  end: () => string
}

/** An output format of reports; `start` begins a new file with these columns. */
export interface ReportFormat {
  name: string
  mediaType: string
  extension: string
  start: (columns: readonly ReportColumn[]) => Rendering
}

/** Every format, by the name that a report request gives. */
export const formats: ReadonlyMap<string, ReportFormat> = new Map([json, csv].map((format) => [format.name, format]))
