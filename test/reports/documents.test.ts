import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inflateSync } from 'node:zlib'
import type { ReportColumn } from '../../src/reports/formats/format.ts'
import { formats } from '../../src/reports/formats/formats.ts'
import { unzip } from '../support/zip.ts'

const columns: ReportColumn[] = [
  { name: 'id', type: 'integer' },
  { name: 'name', type: 'string' },
  { name: 'price', type: 'number' },
  { name: 'createdAt', type: 'instant' },
  { name: 'day', type: 'date' },
]
const at = '2026-01-02T03:04:05.678Z'

async function render(format: string, rows: unknown[][], of = columns, pageRows = 1_000): Promise<Buffer> {
  const sheet = { title: 'Things & more', columns: of, rowCount: rows.length, madeAt: at, font: null }
  const pages = (async function* () {
    for (let from = 0; from < rows.length; from += pageRows) yield rows.slice(from, from + pageRows)
  })()
  const chunks: Buffer[] = []
  for await (const chunk of formats.get(format)?.render(sheet, pages) ?? []) chunks.push(Buffer.from(chunk as string))
  return Buffer.concat(chunks)
}

describe('XLSX', () => {
  const sheetOf = async (rows: unknown[][], of = columns) =>
    unzip(await render('xlsx', rows, of))
      .get('xl/worksheets/sheet1.xml')
      ?.toString() ?? ''
  const cellsOf = (sheet: string) =>
    [...sheet.matchAll(/<row>(.*?)<\/row>/gs)].map(([, row]) =>
      [...(row ?? '').matchAll(/<c[^>]*?(?:\/>|>.*?<\/c>)/gs)].map(([cell]) => cell),
    )

  it('stores numbers as numbers, instants and dates as dates, text as text, and null as an empty cell', async () => {
    const [, first, second] = cellsOf(
      await sheetOf([
        [7, 'Anvil', -0.5, at, '2026-01-02'],
        [8, null, null, null, null],
      ]),
    )
    assert.deepEqual(first, [
      '<c><v>7</v></c>',
      '<c t="inlineStr"><is><t xml:space="preserve">Anvil</t></is></c>',
      '<c><v>-0.5</v></c>',
      // 2026-01-01 has the serial number 46023 in spreadsheets.
      `<c s="2"><v>${46_024 + (3 * 3_600_000 + 4 * 60_000 + 5_678) / 86_400_000}</v></c>`,
      '<c s="3"><v>46024</v></c>',
    ])
    assert.deepEqual(second, ['<c><v>8</v></c>', '<c/>', '<c/>', '<c/>', '<c/>'])
  })

  it('never turns text into a formula, and encodes any text as XML', async () => {
    const texts = ['=1+1', '<b>&amp;</b>', ' padded ', 'a\u0000b\u000bc', 'lone \ud800', '𝄞', ']]>', 'a\r\nb']
    const [, ...rows] = cellsOf(await sheetOf(texts.map((text) => [1, text, 1, at, at])))
    const shown = rows.map(([, cell]) => /preserve">(.*)<\/t>/s.exec(cell as string)?.[1])
    assert.deepEqual(shown, [
      ...['=1+1', '&lt;b&gt;&amp;amp;&lt;/b&gt;', ' padded ', 'a\ufffdb\ufffdc', 'lone \ufffd', '𝄞'],
      ...[']]&gt;', 'a&#13;\nb'],
    ])
  })

  it('has a frozen header row, a width for each column and a sheet name', async () => {
    const files = unzip(await render('xlsx', [[7, 'A rather long name of something', 1, at, at]]))
    const sheet = files.get('xl/worksheets/sheet1.xml')?.toString() ?? ''
    assert.match(sheet, /<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"\/>/)
    assert.deepEqual(
      [...sheet.matchAll(/width="(\d+)"/g)].map(([, width]) => Number(width)),
      [5, 34, 8, 20, 20],
    )
    assert.match(files.get('xl/workbook.xml')?.toString() ?? '', /<sheet name="Things &amp; more" sheetId="1"/)
    for (const path of ['[Content_Types].xml', '_rels/.rels', 'xl/_rels/workbook.xml.rels', 'xl/styles.xml']) {
      assert.ok(files.has(path), path)
    }
  })

  it('contains only the header row when there are no rows', async () => {
    assert.equal(cellsOf(await sheetOf([])).length, 1)
  })

  it('continues on another sheet when a sheet is full', async () => {
    const rowCount = 1_048_575 + 3
    const page = Array.from({ length: 10_000 }, (_, n) => [n])
    const rows = Array.from({ length: rowCount }, (_, n) => page[n % 10_000] as unknown[])
    const of: ReportColumn[] = [{ name: 'n', type: 'integer' }]
    const files = unzip(await render('xlsx', rows, of))
    const lines = (path: string) => files.get(path)?.toString().match(/<row>/g)?.length
    assert.deepEqual(
      [lines('xl/worksheets/sheet1.xml'), lines('xl/worksheets/sheet2.xml'), files.has('xl/worksheets/sheet3.xml')],
      [1_048_576, 4, false],
    )
    assert.match(files.get('xl/workbook.xml')?.toString() ?? '', /name="Things &amp; more \(2\)" sheetId="2"/)
  })

  it('rejects if reading the rows fails, as every other format does', async () => {
    const broken = async function* () {
      yield [[1]]
      throw new Error('connection lost')
    }
    const sheet = { title: 'x', columns: columns.slice(0, 1), rowCount: 2, madeAt: at, font: null }
    for (const format of formats.values()) {
      const reading = async () => {
        for await (const _ of format.render(sheet, broken()));
      }
      await assert.rejects(reading, /connection lost/, format.name)
    }
  })
})

describe('PDF', () => {
  /** Returns the text of each page, collected from the page's content stream. */
  function pagesOf(file: Buffer): string[] {
    const text = file.toString('latin1')
    const pages: string[] = []
    for (const [, stream] of text.matchAll(/\/FlateDecode\n>>\nstream\n(.*?)\nendstream/gs)) {
      const content = inflateSync(Buffer.from(stream ?? '', 'latin1')).toString('latin1')
      if (!content.includes(' TJ')) continue
      const shown = [...content.matchAll(/\[(.*?)\] TJ/g)].map(([, pieces]) =>
        [...(pieces ?? '').matchAll(/<([0-9a-f]*)>/g)]
          .map(([, hex]) => Buffer.from(hex ?? '', 'hex').toString('latin1'))
          .join(''),
      )
      pages.push(shown.join('|'))
    }
    return pages
  }

  it('has a title, a date and every row once; each page has the header line and its page number', async () => {
    const rows = Array.from({ length: 100 }, (_, n) => [n + 1, `Thing ${n + 1}`, n / 4, at, '2026-01-02'])
    const file = await render('pdf', rows)
    assert.equal(file.toString('latin1', 0, 5), '%PDF-')
    const pages = pagesOf(file)
    assert.equal(pages.length, 3)
    assert.match(pages[0] ?? '', /^Things & more\|2026-01-02 03:04:05 UTC {2}. {2}100 rows\|id\|name\|price/)
    for (const [index, page] of pages.entries()) {
      assert.match(page, /id\|name\|price\|createdAt\|day\|/)
      assert.ok(page.includes(`Page ${index + 1} of 3`))
    }
    const found = [...pages.join('|').matchAll(/Thing (\d+)\|/g)].map(([, n]) => Number(n))
    assert.deepEqual(
      found,
      rows.map(([id]) => id),
    )
  })

  it('has one page with the header line when there are no rows', async () => {
    const pages = pagesOf(await render('pdf', []))
    assert.equal(pages.length, 1)
    assert.match(pages[0] ?? '', /0 rows\|id\|name\|price.*Page 1 of 1/)
  })

  it('truncates text that does not fit, and adds an ellipsis', async () => {
    const long = 'Long text of a cell, '.repeat(40)
    const [page] = pagesOf(await render('pdf', [[1, long, 1, at, at]]))
    const [, shown] = /(Long text[^|]*)\|/.exec(page ?? '') ?? []
    assert.ok(shown && shown.length < long.length && shown.charCodeAt(shown.length - 1) === 0x85, shown)
    assert.ok(long.startsWith(shown.slice(0, -1)))
  })
})
