import { csv } from './csv.ts'
import type { ReportFormat } from './format.ts'
import { json, ndjson } from './json.ts'
import { pdf } from './pdf.ts'
import { xlsx } from './xlsx.ts'

/** All formats, by the name used in report requests. To add one, add its file and list it here. */
export const formats: ReadonlyMap<string, ReportFormat> = new Map(
  [json, csv, ndjson, xlsx, pdf].map((format) => [format.name, format]),
)
