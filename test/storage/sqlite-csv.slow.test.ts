import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { after, before, beforeEach, describe, it } from 'node:test'
import fc from 'fast-check'
import { sql } from 'kysely'
import { folderResults } from '../../src/files/folder.ts'
import { renderReport } from '../../src/reports/generate/render.ts'
import type { Database } from '../../src/storage/database.ts'
import type { CellType } from '../../src/storage/engine.ts'
import { openDatabase, openSnapshot } from '../../src/storage/open.ts'
import { longRead } from '../../src/storage/snapshots/long-read.ts'
import type { Snapshot } from '../../src/storage/snapshots/snapshot.ts'

const seed = Number(process.env.SEED ?? 20_261_121)

/** Text that SQLite can write as CSV. Pages that contain any text from `unsure` are rendered row by row instead. */
const sure = [
  '',
  ' ',
  'a,b',
  'a=b',
  '=1,2',
  '=1',
  '+1',
  '-1',
  '@A',
  '\tx',
  'a\tb',
  "'=1",
  ' =1',
  ',',
  '9',
  '%',
  '_',
  '[',
  '~',
]
const unsure = ['"', 'say "hi"', '\n', '\r', 'a\r\nb', '\rx', '\nx', '=a,"b"']
const strange = [
  'é€𝄞',
  '𝄞',
  '\ufeff',
  '\u2028',
  'é,',
  '\x1a',
  'a\0b',
  '\0',
  'x'.repeat(70_000),
  `,${'é'.repeat(70_000)}`,
]
const decimals = [0, -0, 1, -1, 0.5, -0.5, 12.34, -19.99, 0.1, 1.15, 1.005, 0.0001, -0.0001, 0.1234, 999_999.99]
const others = [
  ...[
    0.00012,
    1e-5,
    1.5e-7,
    1 / 3,
    0.1 + 0.2,
    1e10 + 0.01,
    1e11 + 0.5,
    1e15,
    1e15 - 0.125,
    2 ** 53,
    -(2 ** 53),
    2 ** 53 - 1,
  ],
  ...[2 ** 60, -(2 ** 63), 2 ** 63, 1e20, 1e21, 123e19, 1e100, 5e-324, Number.MAX_VALUE, 922337203685477.6],
  ...[Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
]
const columns: Record<string, CellType> = {
  n: 'integer',
  string: 'string',
  number: 'number',
  truth: 'boolean',
  other: 'string',
}

type Row = [string: string | null, number: number | null]

describe('CSV written by SQLite page by page', () => {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-sqlite-csv-'))
  const url = `file:${join(folder, 'cells.db')}`
  let db: Database
  let file: DatabaseSync
  let made = 0

  before(async () => {
    db = await openDatabase(url)
    file = new DatabaseSync(join(folder, 'cells.db'))
    file.exec(
      'create table cells (n integer primary key, string text, number real, truth integer, other text, json text)',
    )
  })
  after(async () => {
    file.close()
    await db.close()
    rmSync(folder, { recursive: true })
  })
  beforeEach(() => file.exec('delete from cells'))

  function fill(rows: Row[]): void {
    const insert = file.prepare('insert into cells values (?, ?, ?, ?, ?, ?)')
    file.exec('begin')
    for (const [n, [string, number]] of rows.entries()) {
      const values: SQLInputValue[] = [
        n * 3,
        string,
        number,
        [0, 1, null][n % 3] ?? null,
        ['A', null][n % 2] ?? null,
        '{"a":1}',
      ]
      insert.run(...values)
    }
    file.exec('commit')
  }

  const readOf = (of: Record<string, CellType>, descending = false) =>
    longRead(db, {
      cells: Object.entries(of).map(([column, type]) => ({ term: sql.raw(column), type })),
      from: sql.raw('cells'),
      where: [sql`n >= ${0}`],
      order: [{ term: sql.raw('n'), descending }],
    })

  async function fileOf(snapshot: Snapshot, of: Record<string, CellType>, descending?: boolean): Promise<string> {
    const resultKey = `r${made++}`
    const order = {
      ...{ resultKey, format: 'csv', title: 'Cells', madeAt: '2026-01-01T00:00:00.000Z', pdfFont: null },
      columns: Object.entries(of).map(([name, type]) => ({ name, type })),
      read: readOf(of, descending),
    }
    const shares: number[] = []
    const onProgress = (share: number) => void shares.push(share)
    const { rowCount } = await renderReport(order, { snapshot, results: folderResults(folder) }, onProgress)
    assert.equal(shares.at(-1), rowCount > 0 ? 1 : undefined)
    const text = readFileSync(join(folder, resultKey), 'latin1')
    rmSync(join(folder, resultKey))
    return text
  }

  /** Asserts that the file equals the CSV rendered row by row; returns how many pages SQLite wrote, and how many it did not. */
  async function samePages(of = columns, descending?: boolean) {
    const snapshot = await openSnapshot(url)
    const pages = { records: 0, rows: 0 }
    const csv: Snapshot['csv'] = (read) => {
      const blocks = snapshot.csv?.(read)
      return blocks && counted(blocks)
    }
    async function* counted<Block>(blocks: AsyncIterable<Block>): AsyncIterable<Block> {
      for await (const block of blocks) {
        pages[Array.isArray(block) ? 'rows' : 'records'] += 1
        yield block
      }
    }
    try {
      const { csv: _, ...without } = snapshot
      const written = await fileOf({ ...snapshot, csv }, of, descending)
      const rendered = await fileOf(without, of, descending)
      assert.ok(written === rendered, `the files differ: ${written.slice(0, 200)} is not ${rendered.slice(0, 200)}`)
      return pages
    } finally {
      await snapshot.close()
    }
  }

  const times = (count: number, rowOf: (n: number) => Row) => Array.from({ length: count }, (_, n) => rowOf(n))
  const among = <Value>(values: readonly Value[], n: number) => values[n % values.length] as Value

  for (const count of [0, 1, 249, 250, 251, 500, 1_001]) {
    it(`is identical to the CSV rendered row by row, for ${count} rows, ascending and descending`, async () => {
      fill(times(count, (n) => [among([...sure, null], n), among([...decimals, null], n)]))
      const records = Math.ceil(count / 250)
      assert.deepEqual(await samePages(), { records, rows: 0 })
      assert.deepEqual(await samePages(columns, true), { records, rows: 0 })
    })
  }

  it('is identical to the CSV rendered row by row, for unusual strings and numbers', async () => {
    for (const text of [...sure, ...unsure, ...strange, null]) {
      file.exec('delete from cells')
      fill([[text, 1]])
      await samePages()
      await samePages({ string: 'string' })
    }
    for (const number of [...decimals, ...others, null]) {
      file.exec('delete from cells')
      fill([['A', number]])
      await samePages({ number: 'number' })
    }
  })

  it('is replaced by row-by-row rendering on pages where it might be wrong, and is then attempted less often', async () => {
    fill(times(5_000, (n) => [n === 600 ? '"' : 'A', n === 4_000 ? 1 / 3 : 0.5]))
    assert.deepEqual(await samePages(), { records: 16, rows: 4 })
    file.exec('delete from cells')
    fill(times(10_000, (n) => [among(unsure, n), 1]))
    assert.deepEqual(await samePages(), { records: 0, rows: 40 })
  })

  it('is not used for JSON cells or for a sort by several fields', async () => {
    assert.equal(readOf({ json: 'json' }).csvPages, undefined)
    const order = ['number', 'n'].map((column) => ({ term: sql.raw(column), descending: false }))
    const cells = [{ term: sql.raw('n'), type: 'integer' as const }]
    assert.equal(longRead(db, { cells, from: sql.raw('cells'), where: [], order }).csvPages, undefined)
  })

  it(`is identical to the CSV rendered row by row, for random rows (SEED=${seed})`, async () => {
    const char = fc.oneof(fc.constantFrom(...'=+-@\t\r\n",\'\\NA 0'), fc.string({ unit: 'binary', maxLength: 1 }))
    const plain = fc.constantFrom(..."=+-@\t,'\\NAé€ 0")
    const text = fc.oneof(
      ...[char, plain].map((unit) => fc.array(unit, { maxLength: 12 }).map((all) => all.join('').toWellFormed())),
    )
    const decimal = fc.tuple(fc.integer(), fc.constantFrom(1, 10, 100, 1_000, 10_000)).map(([n, by]) => n / by)
    const number = fc.oneof(decimal, fc.double({ noNaN: true }), fc.maxSafeInteger())
    const rows = fc.array(fc.tuple(fc.option(text), fc.option(number)), { minLength: 1, maxLength: 40 })
    await fc.assert(
      fc.asyncProperty(rows, async (all) => {
        file.exec('delete from cells')
        fill(all)
        await samePages()
      }),
      { seed, numRuns: 150 },
    )
  })
})
