import { isNumeric, type Pages, type ReportColumn } from './format.ts'

export const maxDecimalPlaces = 18

/** Indexes into the workbook's style table. A decimal's style is `decimal` plus the number of its decimal places. */
export const styles = {
  ...{ header: 1, instant: 2, date: 3, numberHeader: 4, decimal: 5, textDecimal: 5 + maxDecimalPlaces + 1 },
} as const

/** A sheet has at most 1,048,576 rows, one of which is the header. */
export const rowsPerSheet = 1_048_575

/** Yields one worksheet as XML; the first rows determine the column widths. */
export async function* worksheet(columns: readonly ReportColumn[], pages: Pages): AsyncIterable<string> {
  const cells = columns.map(cellWriter)
  let begun = false
  for await (const rows of pages) {
    if (!begun) yield start(columns, rows)
    begun = true
    let text = ''
    for (const row of rows) {
      text += '<row>'
      for (let at = 0; at < cells.length; at++) {
        const cell = row[at]
        text += cell === null ? '<c/>' : (cells[at] as Write)(cell)
      }
      text += '</row>'
    }
    yield text
  }
  if (!begun) yield start(columns, [])
  yield '</sheetData></worksheet>'
}

type Write = (cell: unknown) => string

function cellWriter(column: ReportColumn): Write {
  if (isNumeric(column)) return (cell) => (Number.isFinite(cell) ? `<c><v>${cell}</v></c>` : '<c/>')
  if (column.type === 'decimal') return decimalCell
  if (column.type === 'instant') return (cell) => `<c s="${styles.instant}"><v>${serialOf(cell as string)}</v></c>`
  if (column.type === 'date') return (cell) => `<c s="${styles.date}"><v>${serialOf(cell as string)}</v></c>`
  if (column.type === 'boolean') return (cell) => `<c t="b"><v>${cell ? 1 : 0}</v></c>`
  return (cell) => `<c t="inlineStr"><is><t xml:space="preserve">${xmlText(cell as string)}</t></is></c>`
}

/** Spreadsheet programs calculate with doubles, which hold 15 significant digits; longer decimals stay text. */
const maxExactDigits = 15

function decimalCell(cell: unknown): string {
  const text = cell as string
  const digits = text.replace(/[-.]/g, '').replace(/^0+/, '')
  const places = text.includes('.') ? text.length - text.indexOf('.') - 1 : 0
  if (digits.length <= maxExactDigits && places <= maxDecimalPlaces)
    return `<c s="${styles.decimal + places}"><v>${text}</v></c>`
  return `<c s="${styles.textDecimal}" t="inlineStr"><is><t>${text}</t></is></c>`
}

function start(columns: readonly ReportColumn[], sample: unknown[][]): string {
  const widths = columns.map(
    (column, at) => `<col min="${at + 1}" max="${at + 1}" width="${widthOf(column, at, sample)}" customWidth="1"/>`,
  )
  const header = columns.map(({ name }) => `<c s="${styles.header}" t="inlineStr"><is><t>${xmlText(name)}</t></is></c>`)
  return [
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n',
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetViews>',
    '<sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/>',
    `</sheetView></sheetViews><cols>${widths.join('')}</cols><sheetData><row>${header.join('')}</row>`,
  ].join('')
}

const instantWidth = 20
const widest = 60

function widthOf({ name, type }: ReportColumn, at: number, sample: unknown[][]): number {
  if (type === 'instant' || type === 'date') return instantWidth
  const longest = sample.reduce((most, row) => Math.max(most, String(row[at] ?? '').length), name.length)
  return Math.min(longest, widest) + 3
}

const dayMs = 86_400_000
/**
 * The serial number of 1970-01-01. Day 0 is 1899-12-30, because the format counts 29 February 1900, which never
 * existed.
 */
const epochDays = 25_569

/** Converts a date or an instant (UTC) to the number of days since day 0, as spreadsheets store times. */
const serialOf = (iso: string): number => Date.parse(iso) / dayMs + epochDays

/** Characters that may have to be escaped or replaced. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: matches them on purpose
const special = /[&<>\u0000-\u001f\ud800-\udfff\ufffe\uffff]/
// biome-ignore lint/suspicious/noControlCharactersInRegex: matches them on purpose
const forbidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g

/** Escapes text for an element; characters that XML cannot contain become U+FFFD. */
export function xmlText(text: string): string {
  if (!special.test(text)) return text
  const valid = text.toWellFormed().replace(forbidden, '\ufffd')
  return valid.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('\r', '&#13;')
}
