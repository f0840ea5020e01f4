import type { Readable } from 'node:stream'
import type { Pages, ReportFormat, Sheet } from './format.ts'
import { type Layout, layout, pdfPage } from './pdf-layout.ts'
import { pageDrawer } from './pdf-page.ts'

/** A table on as many A4 pages as needed, each page with the header line and a page number. */
export const pdf: ReportFormat = {
  name: 'pdf',
  mediaType: 'application/pdf',
  extension: 'pdf',
  maxRows: 20_000,
  render: async function* (sheet, pages) {
    // Loaded on demand, so that other reports do not keep it in memory.
    const { default: PdfDocument } = await import('pdfkit')
    const { title, madeAt } = sheet
    const info = { Title: title, Creator: 'Plinth', CreationDate: new Date(madeAt) }
    const { width, height } = pdfPage
    const document = new PdfDocument({ size: [width, height], margin: 0, autoFirstPage: false, info, lang: 'en' })
    const output = document as unknown as Readable
    // Without this listener, an error would crash the process before the consumer of the output receives it.
    output.on('error', () => {})
    const drawn = draw(document, sheet, pages)
    drawn.catch((error) => output.destroy(error))
    yield* output
    await drawn
  },
}

async function draw(document: PDFKit.PDFDocument, sheet: Sheet, pages: Pages): Promise<void> {
  let pageLayout: Layout | undefined
  let drawer: ReturnType<typeof pageDrawer> | undefined
  for await (const rows of pages) {
    pageLayout ??= layout(document, sheet, rows)
    drawer ??= pageDrawer(document, sheet, pageLayout)
    for (const row of rows) drawer.row(row)
  }
  drawer ??= pageDrawer(document, sheet, layout(document, sheet, []))
  drawer.end()
}
