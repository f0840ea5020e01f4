import { isNumeric, type Sheet } from './format.ts'
import { type Fonts, openFonts } from './pdf-fonts.ts'

/** A4, the long side across; all lengths in points. */
export const page = { width: 841.89, height: 595.28, margin: 36, titleHeight: 44, headerHeight: 18, rowHeight: 14 }

export const textSize = 8

/** Where the columns stand, and how the rows divide into pages. */
export interface Layout {
  fonts: Fonts
  columns: { name: string; x: number; width: number; alignRight: boolean }[]
  rowsOnFirstPage: number
  rowsOnPage: number
  pageCount: number
}

const gap = 10
const sampleRows = 200
const narrowest = 24
const mostSlack = 60

/** Gives each column what its header and its first rows take; where that is too much, the widest give way. */
export function layout(document: PDFKit.PDFDocument, sheet: Sheet, rows: unknown[][]): Layout {
  const fonts = openFonts(document, sheet.font)
  const { columns, rowCount } = sheet
  const sample = rows.slice(0, sampleRows)
  const wanted = columns.map((column, at) => {
    const texts = sample.map((row) => shownCell(row[at], column.type))
    const widths = texts.map((text) => fonts.widthOf(text, textSize))
    return Math.max(fonts.widthOf(column.name, textSize, true), narrowest, ...widths)
  })
  const widths = fitted(wanted, page.width - 2 * page.margin - gap * (columns.length - 1))
  let x = page.margin
  const placed = columns.map((column, at) => {
    const width = widths[at] as number
    const place = { name: column.name, x, width, alignRight: isNumeric(column) }
    x += width + gap
    return place
  })
  return { fonts, columns: placed, ...division(rowCount) }
}

/** Cuts the widest down to one common width, so that all fit; what is left over is shared. */
function fitted(wanted: number[], room: number): number[] {
  const total = wanted.reduce((sum, width) => sum + width, 0)
  if (total <= room) return wanted.map((width) => width + Math.min((room - total) / wanted.length, mostSlack))
  let [low, high] = [0, room]
  while (high - low > 0.1) {
    const middle = (low + high) / 2
    const taken = wanted.reduce((sum, width) => sum + Math.min(width, middle), 0)
    if (taken > room) high = middle
    else low = middle
  }
  return wanted.map((width) => Math.min(width, low))
}

function division(rowCount: number) {
  const room = page.height - 2 * page.margin - page.headerHeight
  const rowsOnPage = Math.floor(room / page.rowHeight)
  const rowsOnFirstPage = Math.floor((room - page.titleHeight) / page.rowHeight)
  const pageCount = 1 + Math.ceil(Math.max(rowCount - rowsOnFirstPage, 0) / rowsOnPage)
  return { rowsOnPage, rowsOnFirstPage, pageCount }
}

/** A cell as people read it: instants without the T, the Z and the milliseconds. */
export function shownCell(cell: unknown, type: string): string {
  if (cell === null) return ''
  return type === 'instant' ? String(cell).slice(0, 19).replace('T', ' ') : String(cell)
}
