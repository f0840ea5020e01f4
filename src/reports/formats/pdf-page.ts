import type { Sheet } from './format.ts'
import { cellText, type Layout, pdfPage, textSize } from './pdf-layout.ts'

const colours = { text: '#1d2733', muted: '#5d6b7a', header: '#e8ecf1', stripe: '#f5f7f9' }
const titleSize = 16
const smallSize = 8
/** The distance from the top of a line to the baseline, the same for all fonts. */
const baseline = 10
/** How far the colored bands extend beyond their text. */
const overhang = 4

/** The document being drawn, and the position of the next line. */
interface Drawing {
  document: PDFKit.PDFDocument
  sheet: Sheet
  layout: Layout
  pages: number
  rowsLeft: number
  y: number
}

/** Draws rows one below another; starts a new page, with its header line, when a page is full. */
export function pageDrawer(document: PDFKit.PDFDocument, sheet: Sheet, layout: Layout) {
  const drawing: Drawing = { document, sheet, layout, pages: 0, rowsLeft: 0, y: 0 }
  return {
    row: (cells: unknown[]): void => {
      if (drawing.rowsLeft === 0) newPage(drawing)
      if (drawing.rowsLeft % 2 === 1) band(drawing, pdfPage.rowHeight, colours.stripe)
      for (const [at, { type }] of sheet.columns.entries()) drawCell(drawing, cellText(cells[at], type), at, false)
      drawing.y += pdfPage.rowHeight
      drawing.rowsLeft -= 1
    },
    end: (): void => {
      if (drawing.pages === 0) newPage(drawing)
      document.end()
    },
  }
}

function newPage(drawing: Drawing): void {
  const { document, layout } = drawing
  document.addPage()
  drawing.pages += 1
  drawing.rowsLeft = drawing.pages === 1 ? layout.rowsOnFirstPage : layout.rowsOnPage
  drawing.y = pdfPage.margin
  if (drawing.pages === 1) drawTitle(drawing)
  drawHeader(drawing)
  drawFooter(drawing)
}

function drawTitle(drawing: Drawing): void {
  const { sheet, layout, y } = drawing
  const rows = `${sheet.rowCount.toLocaleString('en')} ${sheet.rowCount === 1 ? 'row' : 'rows'}`
  const made = `${sheet.madeAt.slice(0, 19).replace('T', ' ')} UTC`
  write(drawing, layout.fonts.choose(sheet.title, true), pdfPage.margin, y + 13, titleSize, colours.text)
  write(drawing, layout.fonts.choose(`${made}  ·  ${rows}`), pdfPage.margin, y + 29, smallSize, colours.muted)
  drawing.y += pdfPage.titleHeight
}

function drawHeader(drawing: Drawing): void {
  const lift = (pdfPage.headerHeight - pdfPage.rowHeight) / 2
  band(drawing, pdfPage.headerHeight, colours.header)
  drawing.y += lift
  for (const [at, { name }] of drawing.layout.columns.entries()) drawCell(drawing, name, at, true)
  drawing.y += pdfPage.headerHeight - lift
}

function drawFooter(drawing: Drawing): void {
  const { document, sheet, layout, pages } = drawing
  const y = pdfPage.height - pdfPage.margin + 15
  const number = layout.fonts.choose(`Page ${pages} of ${layout.pageCount}`)
  const x = pdfPage.width - pdfPage.margin - document.fontSize(smallSize).widthOfString(number)
  write(drawing, number, x, y, smallSize, colours.muted)
  write(drawing, layout.fonts.choose(sheet.title), pdfPage.margin, y, smallSize, colours.muted)
}

/** Draws one line of text in a column; right-aligns numbers. */
function drawCell(drawing: Drawing, value: string, at: number, bold: boolean): void {
  const { document, layout, y } = drawing
  const { x, width, alignRight } = layout.columns[at] as Layout['columns'][number]
  const shown = layout.fonts.choose(bold ? value : layout.fonts.cut(value, textSize, width), bold)
  const start = alignRight ? x + width - document.fontSize(textSize).widthOfString(shown) : x
  write(drawing, shown, start, y + baseline, textSize, colours.text)
}

function band({ document, y }: Drawing, height: number, colour: string): void {
  const width = pdfPage.width - 2 * pdfPage.margin + 2 * overhang
  document.rect(pdfPage.margin - overhang, y, width, height).fill(colour)
}

/** Writes text in the most recently selected font. */
function write({ document }: Drawing, text: string, x: number, y: number, size: number, colour: string): void {
  document.fontSize(size).fillColor(colour).text(text, x, y, { lineBreak: false, baseline: 'alphabetic' })
}
