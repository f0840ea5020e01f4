import type { Sheet } from './format.ts'
import { type Layout, page, shownCell, textSize } from './pdf-layout.ts'

const colours = { text: '#1d2733', muted: '#5d6b7a', header: '#e8ecf1', stripe: '#f5f7f9', line: '#c5ced8' }
const titleSize = 16
const smallSize = 8
/** From the top of a line to the top of its text. */
const inset = 3.5

/** Draws rows one after the other, and a new page with its header line whenever one is full. */
export function pageDrawer(document: PDFKit.PDFDocument, sheet: Sheet, place: Layout) {
  const { fonts, columns } = place
  const right = page.width - page.margin
  let pages = 0
  let rowsLeft = 0
  let y = 0

  const text = (shown: string, x: number, top: number, size: number, colour: string) =>
    document.fontSize(size).fillColor(colour).text(shown, x, top, { lineBreak: false })

  /** One line of text in a column; numbers end at its right edge. */
  function cell(value: string, at: number, bold: boolean): void {
    const { x, width, alignRight } = columns[at] as Layout['columns'][number]
    const shown = fonts.choose(bold ? value : fonts.cut(value, textSize, width), bold)
    const start = alignRight ? x + width - document.fontSize(textSize).widthOfString(shown) : x
    text(shown, start, y + inset, textSize, colours.text)
  }

  function title(): void {
    text(fonts.choose(sheet.title, true), page.margin, y, titleSize, colours.text)
    const rows = `${sheet.rowCount.toLocaleString('en')} ${sheet.rowCount === 1 ? 'row' : 'rows'}`
    const made = `${sheet.madeAt.slice(0, 19).replace('T', ' ')} UTC`
    text(fonts.choose(`${made}  ·  ${rows}`), page.margin, y + 22, smallSize, colours.muted)
    y += page.titleHeight
  }

  function header(): void {
    document.rect(page.margin - 4, y, right - page.margin + 8, page.headerHeight).fill(colours.header)
    y += 1.5
    for (const [at, { name }] of columns.entries()) cell(name, at, true)
    y += page.headerHeight - 1.5
  }

  function footer(): void {
    const shown = fonts.choose(`Page ${pages} of ${place.pageCount}`)
    const width = document.fontSize(smallSize).widthOfString(shown)
    text(shown, right - width, page.height - page.margin + 8, smallSize, colours.muted)
    text(fonts.choose(sheet.title), page.margin, page.height - page.margin + 8, smallSize, colours.muted)
  }

  function newPage(): void {
    document.addPage()
    pages += 1
    rowsLeft = pages === 1 ? place.rowsOnFirstPage : place.rowsOnPage
    y = page.margin
    if (pages === 1) title()
    header()
    footer()
  }

  return {
    row: (cells: unknown[]): void => {
      if (rowsLeft === 0) newPage()
      if (rowsLeft % 2 === 1) {
        document.rect(page.margin - 4, y, right - page.margin + 8, page.rowHeight).fill(colours.stripe)
      }
      for (const [at, { type }] of sheet.columns.entries()) cell(shownCell(cells[at], type), at, false)
      y += page.rowHeight
      rowsLeft -= 1
    },
    end: (): void => {
      if (pages === 0) newPage()
      document.end()
    },
  }
}
