import { existsSync } from 'node:fs'
import { isRightAligned, type Sheet } from './format.ts'

/** A4 landscape; all lengths are in points. */
export const pdfPage = { width: 841.89, height: 595.28, margin: 36, titleHeight: 44, headerHeight: 18, rowHeight: 14 }

export const textSize = 8

/** The column positions, and the division of the rows into pages. */
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
const maxSlack = 60

/**
 * Makes each column wide enough for its header and the first rows. If the columns do not fit, the widest columns
 * shrink.
 */
export function layout(document: PDFKit.PDFDocument, sheet: Sheet, rows: unknown[][]): Layout {
  const fonts = openFonts(document, sheet.font)
  const { columns, rowCount } = sheet
  const sample = rows.slice(0, sampleRows)
  const wanted = columns.map((column, at) => {
    const texts = sample.map((row) => cellText(row[at], column.type))
    const widths = texts.map((text) => fonts.widthOf(text, textSize))
    return Math.max(fonts.widthOf(column.name, textSize, true), narrowest, ...widths)
  })
  const widths = fitted(wanted, pdfPage.width - 2 * pdfPage.margin - gap * (columns.length - 1))
  let x = pdfPage.margin
  const positioned = columns.map((column, at) => {
    const width = widths[at] as number
    const place = { name: column.name, x, width, alignRight: isRightAligned(column) }
    x += width + gap
    return place
  })
  return { fonts, columns: positioned, ...division(rowCount) }
}

/** If the columns do not fit, limits the widest to a common width; otherwise, widens all by the same amount. */
function fitted(wanted: number[], room: number): number[] {
  const total = wanted.reduce((sum, width) => sum + width, 0)
  if (total <= room) return wanted.map((width) => width + Math.min((room - total) / wanted.length, maxSlack))
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
  const room = pdfPage.height - 2 * pdfPage.margin - pdfPage.headerHeight
  const rowsOnPage = Math.floor(room / pdfPage.rowHeight)
  const rowsOnFirstPage = Math.floor((room - pdfPage.titleHeight) / pdfPage.rowHeight)
  const pageCount = 1 + Math.ceil(Math.max(rowCount - rowsOnFirstPage, 0) / rowsOnPage)
  return { rowsOnPage, rowsOnFirstPage, pageCount }
}

/** Formats a cell for display: instants without T, Z and milliseconds. */
export function cellText(cell: unknown, type: string): string {
  if (cell === null) return ''
  return type === 'instant' ? String(cell).slice(0, 19).replace('T', ' ') : String(cell)
}

/** A document's fonts, with functions that measure and truncate text. */
export interface Fonts {
  /** Selects the font for a text, and returns the text with unsupported characters replaced. */
  choose: (text: string, bold?: boolean) => string
  widthOf: (text: string, size: number, bold?: boolean) => number
  /** Returns the longest prefix of a text that fits, with an ellipsis if the text was truncated. */
  cut: (text: string, size: number, room: number) => string
}

/** Fonts that cover many scripts, at their usual system paths, in order of preference. */
const systemFonts = [
  '/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf',
  '/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf',
  '/usr/share/fonts/noto/NotoSans-Regular.ttf',
  '/usr/share/fonts/TTF/DejaVuSans.ttf',
  '/System/Library/Fonts/Supplemental/Arial Unicode.ttf',
  'C:\\Windows\\Fonts\\arial.ttf',
]

/** The Windows-1252 characters, which Helvetica (built into PDF) can render. */
const western = /^[\u0020-\u007e\u00a0-\u00ff€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]*$/
const outside = /[^\u0020-\u007e\u00a0-\u00ff€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]/gu
// biome-ignore lint/suspicious/noControlCharactersInRegex: matches them on purpose
const controls = /[\u0000-\u001f\u007f-\u009f]/g

/**
 * Uses Helvetica for western text, and the given font file or a system font for other text. If no such font exists,
 * `?` replaces each character that Helvetica cannot render.
 */
export function openFonts(document: PDFKit.PDFDocument, wanted: string | null): Fonts {
  const file = [wanted, ...systemFonts].find((path) => path && existsSync(path))
  if (file) document.registerFont('wide', file)
  const choose = (text: string, bold = false): string => {
    const clean = text.replace(controls, ' ')
    const isWestern = western.test(clean)
    document.font(isWestern || !file ? (bold ? 'Helvetica-Bold' : 'Helvetica') : 'wide')
    return isWestern || file ? clean : clean.replace(outside, '?')
  }
  const widthOf = (text: string, size: number, bold = false) => {
    const shown = choose(text, bold)
    return document.fontSize(size).widthOfString(shown)
  }
  const cut = (text: string, size: number, room: number) => {
    if (widthOf(text, size) <= room) return text
    const characters = [...text]
    let [fits, max] = [0, characters.length]
    while (fits < max) {
      const middle = Math.ceil((fits + max) / 2)
      if (widthOf(`${characters.slice(0, middle).join('')}…`, size) <= room) fits = middle
      else max = middle - 1
    }
    return `${characters.slice(0, fits).join('')}…`
  }
  return { choose, widthOf, cut }
}
