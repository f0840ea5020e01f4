import type { ReportFormat } from './format.ts'
import { objectWriter } from './json.ts'

/** One object per line, each ended by a line feed; null fields are omitted. */
export const ndjson: ReportFormat = {
  name: 'ndjson',
  mediaType: 'application/x-ndjson',
  extension: 'ndjson',
  render: async function* ({ columns }, pages) {
    const write = objectWriter(columns)
    for await (const rows of pages) {
      let text = ''
      for (const row of rows) {
        text += write(row)
        text += '\n'
      }
      yield text
    }
  },
}
