import { csv } from './csv.ts'
import type { ReportFormat } from './format.ts'
import { json } from './json.ts'
import { ndjson } from './ndjson.ts'
import { pdf } from './pdf.ts'
import { xlsx } from './xlsx.ts'

/** Every format, by the name that a report request gives. A new one is a file and a word here. */
export const formats: ReadonlyMap<string, ReportFormat> = new Map(
  [json, csv, ndjson, xlsx, pdf].map((format) => [format.name, format]),
)
