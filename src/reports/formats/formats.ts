import { csv } from './csv.ts'
import type { FormatName, ReportFormat } from './format.ts'
import { json, ndjson } from './json.ts'
import { pdf } from './pdf.ts'
import { xlsx } from './xlsx.ts'

/** All formats by name. To add a format, add its name to `formatNames` and its implementation here. */
const byName: Record<FormatName, ReportFormat> = { json, csv, ndjson, xlsx, pdf }

export const formats: ReadonlyMap<string, ReportFormat> = new Map(Object.entries(byName))
