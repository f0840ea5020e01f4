import { isNumeric, type ReportColumn, type ReportFormat } from './format.ts'

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

/** Makes rows into JSON objects: a field that is null, or a number that JSON does not know, is left out. */
export function objectWriter(columns: readonly ReportColumn[]): (row: unknown[]) => string {
  const names = columns.map(({ name }) => `${JSON.stringify(name)}:`)
  const isNumber = columns.map(isNumeric)
  // Truth, and JSON as its text, stand as they are.
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

/** What may not stand bare in a JSON string (RFC 8259 §7), and surrogates, which may be without their other half. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const special = /["\\\u0000-\u001f\ud800-\udfff]/

const quoted = (text: string) => (special.test(text) ? JSON.stringify(text) : `"${text}"`)
