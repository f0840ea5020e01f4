import { isNumeric, type ReportColumn, type ReportFormat } from './format.ts'

/** An array with one object per line; null fields are omitted. */
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

/** Returns a function that converts rows to JSON objects; omits null fields, and numbers that JSON cannot represent. */
export function objectWriter(columns: readonly ReportColumn[]): (row: unknown[]) => string {
  const names = columns.map(({ name }) => `${JSON.stringify(name)}:`)
  const isNumber = columns.map(isNumeric)
  // Numbers, booleans and JSON text are written unquoted.
  const isBare = columns.map((column) => isNumeric(column) || column.type === 'boolean' || column.type === 'json')
  return (row) => {
    let text = '{'
    for (let at = 0; at < names.length; at++) {
      const cell = row[at]
      if (cell === null || (isNumber[at] && !Number.isFinite(cell))) continue
      if (text.length > 1) text += ','
      text += names[at]
      text += isBare[at] ? cell : quoted(cell as string)
    }
    return `${text}}`
  }
}

/** Characters that need escaping in a JSON string (RFC 8259 §7), and surrogates, which may be unpaired. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: matches them on purpose
const special = /["\\\u0000-\u001f\ud800-\udfff]/

const quoted = (text: string) => (special.test(text) ? JSON.stringify(text) : `"${text}"`)

/** One JSON object per line, each followed by a line feed; null fields are omitted. */
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
