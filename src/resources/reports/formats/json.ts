import type { ReportFormat } from '../formats.ts'

/** An array with an object a line; a field that is null is left out. */
export const json: ReportFormat = {
  name: 'json',
  mediaType: 'application/json',
  extension: 'json',
  start: (columns) => {
    const names = columns.map(({ name }) => `${JSON.stringify(name)}:`)
    const isText = columns.map(({ type }) => type === 'string' || type === 'instant')
    const isNumber = columns.map(({ type }) => type === 'number' || type === 'integer')
    let separator = '\n'
    return {
      start: '[',
      rows: (rows) => {
        let text = ''
        for (const row of rows) {
          text += `${separator}{${members(row, names, isText, isNumber)}}`
          separator = ',\n'
        }
        return text
      },
      end: () => '\n]\n',
    }
  },
}

function members(row: unknown[], names: string[], isText: boolean[], isNumber: boolean[]): string {
  let text = ''
  for (let at = 0; at < names.length; at++) {
    const cell = row[at]
    // JSON knows no infinity and no NaN.
    if (cell === null || (isNumber[at] && !Number.isFinite(cell))) continue
    if (text !== '') text += ','
    text += names[at]
    text += isText[at] ? JSON.stringify(cell) : cell
  }
  return text
}
