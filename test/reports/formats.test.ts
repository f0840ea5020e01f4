import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { ReportColumn, ReportFormat } from '../../src/reports/formats/format.ts'
import { formats } from '../../src/reports/formats/formats.ts'

const columns: ReportColumn[] = [
  { name: 'id', type: 'integer' },
  { name: 'name', type: 'string' },
  { name: 'price', type: 'number' },
  { name: 'createdAt', type: 'instant' },
]
const at = '2026-01-02T03:04:05.678Z'
const csv = formats.get('csv') as ReportFormat
const json = formats.get('json') as ReportFormat

async function render(format: ReportFormat, pages: unknown[][][], of = columns): Promise<string> {
  const rowCount = pages.flat().length
  const sheet = { title: 'Things', columns: of, rowCount, madeAt: at, font: null }
  const flowing = (async function* () {
    yield* pages
  })()
  let text = ''
  for await (const chunk of format.render(sheet, flowing)) text += chunk
  return text
}

/** Parses CSV strictly by RFC 4180: records end with CRLF, and quotes may only enclose a whole cell. */
function readCsv(text: string): string[][] {
  const records: string[][] = []
  let record: string[] = []
  for (let at = 0; at < text.length; ) {
    const cell = /"((?:[^"]|"")*)"|([^",\r\n]*)/y
    cell.lastIndex = at
    const [whole, quoted, plain] = cell.exec(text) as RegExpExecArray
    record.push(quoted === undefined ? (plain as string) : quoted.replaceAll('""', '"'))
    at += whole.length
    if (text[at] === ',') at += 1
    else {
      assert.equal(text.slice(at, at + 2), '\r\n', `a record ends at ${at}`)
      records.push(record)
      record = []
      at += 2
    }
  }
  return records
}

describe('CSV', () => {
  it('has a header line, CRLF line ends, and empty cells for null', async () => {
    const text = await render(csv, [[[1, 'Anvil', 19.9, at]], [[2, null, null, null]]])
    assert.equal(text, `id,name,price,createdAt\r\n1,Anvil,19.9,${at}\r\n2,,,\r\n`)
  })

  it('contains only the header line when there are no rows', async () => {
    assert.equal(await render(csv, []), 'id,name,price,createdAt\r\n')
  })

  it('quotes cells that contain separators, quotation marks or line ends', async () => {
    const text = await render(csv, [
      [
        [1, 'a,b', 0, at],
        [2, 'say "hi"', 0, at],
        [3, 'two\r\nlines', 0, at],
        [4, '"', 0, at],
      ],
    ])
    assert.match(text, /1,"a,b",0/)
    assert.match(text, /2,"say ""hi""",0/)
    assert.match(text, /3,"two\r\nlines",0/)
    assert.deepEqual(
      readCsv(text).map(([, name]) => name),
      ['name', 'a,b', 'say "hi"', 'two\r\nlines', '"'],
    )
  })

  it("adds the prefix ' to text that looks like a formula, and leaves numbers unchanged", async () => {
    const cells = ['=1+1', '+1', '-1', '@SUM(A1)', '\tx', '\rx', '=a,"b"', 'a=b', "'=1", ' =1']
    const text = await render(csv, [cells.map((cell) => [-5, cell, -0.5, at])])
    assert.deepEqual(
      readCsv(text)
        .slice(1)
        .map(([id, name, price]) => [id, name, price]),
      ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\tx", "'\rx", '\'=a,"b"', 'a=b', "'=1", ' =1'].map((cell) => [
        '-5',
        cell,
        '-0.5',
      ]),
    )
  })

  it('writes only as many cells as there are columns, even if rows contain more', async () => {
    assert.equal(await render(csv, [[['Anvil', 7]]], [{ name: 'name', type: 'string' }]), 'name\r\nAnvil\r\n')
  })

  it('writes any text so that an RFC 4180 parser reads it back, with a prefix only if it looks like a formula', async () => {
    const cell = fc.option(
      fc.oneof(fc.string({ unit: 'grapheme' }), fc.string({ unit: fc.constantFrom(...'=+-@\t\r\n",\'a') })),
    )
    const number = fc.option(fc.double({ noNaN: true, noDefaultInfinity: true }))
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.integer(), cell, number)), async (rows) => {
        const [, ...records] = readCsv(await render(csv, [rows], columns.slice(0, 3)))
        const expected = rows.map(([id, name, price]) => [
          String(id),
          `${/^[=+\-@\t\r]/.test(name ?? '') ? "'" : ''}${name ?? ''}`,
          price === null ? '' : String(price),
        ])
        assert.deepEqual(records, expected)
      }),
    )
  })
})

describe('JSON', () => {
  it('is an array of objects that omit null fields', async () => {
    const text = await render(json, [
      [[1, 'Anvil "X"', 19.9, at]],
      [
        [2, null, null, null],
        [null, 'é\u2028', -0.5, at],
      ],
    ])
    assert.deepEqual(JSON.parse(text), [
      { id: 1, name: 'Anvil "X"', price: 19.9, createdAt: at },
      { id: 2 },
      { name: 'é\u2028', price: -0.5, createdAt: at },
    ])
  })

  it('is an empty array if there are no rows, and has an empty object for a row without values', async () => {
    assert.deepEqual(JSON.parse(await render(json, [])), [])
    assert.deepEqual(JSON.parse(await render(json, [[[null, null, null, null]]])), [{}])
  })

  it('omits numbers that JSON cannot represent', async () => {
    assert.deepEqual(
      JSON.parse(
        await render(json, [
          [
            [1, 'x', Number.POSITIVE_INFINITY, at],
            [2, 'y', Number.NaN, at],
          ],
        ]),
      ),
      [
        { id: 1, name: 'x', createdAt: at },
        { id: 2, name: 'y', createdAt: at },
      ],
    )
  })

  it('writes any text so that it reads back unchanged', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.integer(), fc.string({ unit: 'binary' }))), async (rows) => {
        const text = await render(json, [rows.slice(0, 2), rows.slice(2)], columns.slice(0, 2))
        assert.deepEqual(
          JSON.parse(text),
          rows.map(([id, name]) => ({ id, name })),
        )
      }),
    )
  })
})

describe('every format', () => {
  it('is registered under its own name, with a media type and an extension', async () => {
    for (const [name, format] of formats) {
      assert.equal(format.name, name)
      assert.match(format.mediaType, /^[a-z]+\/[a-z.+-]+(; [a-z]+=[A-Za-z0-9-]+)*$/)
      assert.match(format.extension, /^[a-z]+$/)
    }
    assert.equal(csv.mediaType, 'text/csv; charset=utf-8; header=present')
    assert.equal(json.mediaType, 'application/json')
  })
})
