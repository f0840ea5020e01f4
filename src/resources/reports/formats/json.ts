import type { ReportFormat } from './format.ts'
import { objectWriter } from './json-object.ts'

/** An array with an object a line; a field that is null is left out. */
export const json: ReportFormat = {
  name: 'json',
  mediaType: 'application/json',
  extension: 'json',
  render: async function* ({ columns }, pages) {
    const write = objectWriter(columns)
    let separator = '\n'
    yield '['
    for await (const rows of pages) {
      let text = ''
      for (const row of rows) {
        text += separator
        text += write(row)
        separator = ',\n'
      }
      yield text
    }
    yield '\n]\n'
  },
}
