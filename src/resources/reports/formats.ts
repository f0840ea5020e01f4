import { csv } from './formats/csv.ts'
import type { ReportFormat } from './formats/format.ts'
import { json } from './formats/json.ts'
import { ndjson } from './formats/ndjson.ts'
import { pdf } from './formats/pdf.ts'
import { xlsx } from './formats/xlsx.ts'

/** Every format, by the name that a report request gives. A new one is a file and a word here. */
export const formats: ReadonlyMap<string, ReportFormat> = new Map(
  [json, csv, ndjson, xlsx, pdf].map((format) => [format.name, format]),
)
