import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { sql } from 'kysely'
import { folderResults } from '../../src/files/folder.ts'
import { renderReport } from '../../src/reports/generate/render.ts'
import type { Database } from '../../src/storage/database.ts'
import type { CellType } from '../../src/storage/engine.ts'
import { openSnapshot } from '../../src/storage/open.ts'
import { longRead } from '../../src/storage/snapshots/long-read.ts'
import type { Snapshot } from '../../src/storage/snapshots/snapshot.ts'
import { onPostgres } from '../support/engines.ts'

const seed = Number(process.env.SEED ?? 20_261_121)

const texts = [
  ...[
    '',
    ' ',
    ' both ends ',
    'a,b',
    '"',
    'say "hi"',
    '\n',
    '\r',
    '\r\n',
    'two\r\nlines',
    'a\nb\rc',
    '\t',
    'a\tb',
    '\\',
  ],
  ...['\\N', '\\.', '"\\."', '\\n', 'null', 'NULL', '=1+1', '+1', '-1', '@SUM(A1)', '\tx', '\rx', '\nx', '=a,"b"'],
  ...["'=1", ' =1', 'a=b', '=', '-', '9', '%', '[', '~', '\u007f', 'é€𝄞', '𝄞', '\ufeff', '\u2028', '\ud7ff', 'A', 'a'],
  ...['x'.repeat(1_200_000), `="${'"\r\n,'.repeat(400_000)}`, 'é'.repeat(32_767), 'y'.repeat(65_531)],
]
const numbers = [
  ...[0, 1, -1, 0.1, -19.99, 1e-4, 0.00012, -0.5, 1e14, 999_999_999_999_999, 1e15 - 0.125, 1e21, 1e100, 1e-100],
  ...[Number.MAX_VALUE, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN, Number.EPSILON],
]
/** Numbers that the database and the service may write with different digits or exponents. */
const otherwise = [-0, 1.5e-7, -1e-5, 1e-6, 9.9e-5, 1e15, 2 ** 53, -(2 ** 53), 2 ** 53 - 1, 1e20, 123e19, 5e-324]

onPostgres((engine) => {
  describe('a CSV report written by the database', () => {
    let db: Database
    const folder = mkdtempSync(join(tmpdir(), 'plinth-csv-'))
    let made = 0

    before(async () => {
      db = await engine.database()
      await run('create table cells (n integer, string text, number double precision, truth smallint, json text)')
    })
    after(async () => {
      await db.close()
      rmSync(folder, { recursive: true })
    })

    const run = (statement: string) => db.write((tx) => sql.raw(statement).execute(tx))

    interface Cells {
      string?: (string | null)[]
      number?: (number | null)[]
    }

    /** Replaces the table's rows with rows of these cells, plus booleans and JSON. */
    async function fill({ string = [], number = [] }: Cells): Promise<void> {
      await run('truncate cells')
      const values = Array.from({ length: Math.max(string.length, number.length) }, (_, n) => {
        const digits = Object.is(number[n], -0) ? '-0' : (number[n] ?? null)
        const json = n % 4 === 0 ? null : JSON.stringify([{ a: string[n] }, -n, string[n], '=1'][n % 4])
        const truth = [0, 1, null][n % 3]
        return sql`(${n}::integer, ${string[n] ?? null}::text, ${digits}::text::double precision,
          ${truth}::smallint, ${json ?? null}::text)`
      })
      if (values.length > 0) await db.write((tx) => sql`insert into cells values ${sql.join(values)}`.execute(tx))
    }

    const everyCell: Record<string, CellType> = {
      ...{ n: 'integer', string: 'string', number: 'number', truth: 'boolean', json: 'json' },
    }

    const readOf = (columns: Record<string, CellType>, from = 'cells') =>
      longRead(db, {
        cells: Object.entries(columns).map(([column, type]) => ({ term: sql.raw(column), type })),
        from: sql.raw(from),
        where: [sql`n >= ${0}`],
        order: [{ term: sql.raw('n'), descending: false }],
      })

    /** Renders a report; returns the file's bytes, its row count and the reported progress. */
    async function fileOf(snapshot: Snapshot, columns: Record<string, CellType>, from?: string) {
      const shares: number[] = []
      const order = {
        ...{
          resultKey: `r${made++}`,
          format: 'csv',
          title: 'Cells',
          madeAt: '2026-01-01T00:00:00.000Z',
          pdfFont: null,
        },
        columns: Object.entries(columns).map(([name, type]) => ({ name, type })),
        read: readOf(columns, from),
      }
      const { rowCount, sizeBytes } = await renderReport(
        order,
        { snapshot, results: folderResults(folder) },
        (share) => {
          shares.push(share)
        },
      )
      const bytes = readFileSync(join(folder, order.resultKey))
      rmSync(join(folder, order.resultKey))
      assert.equal(bytes.length, sizeBytes)
      return { bytes, rowCount, shares }
    }

    /** Returns the file that the database writes; asserts that the service renders the same bytes. */
    async function sameFile(columns = everyCell, from?: string): Promise<string> {
      const snapshot = await openSnapshot(db.url)
      try {
        let blocks = 0
        const csv: Snapshot['csv'] = (read) => {
          blocks += 1
          return snapshot.csv?.(read)
        }
        const written = await fileOf({ ...snapshot, csv }, columns, from)
        const { csv: _, ...without } = snapshot
        const rendered = await fileOf(without, columns, from)
        assert.ok(written.bytes.equals(rendered.bytes), 'the files differ')
        assert.equal(written.rowCount, rendered.rowCount)
        assert.deepEqual([blocks, written.shares.at(-1)], [1, rendered.shares.at(-1)])
        return written.bytes.toString()
      } finally {
        await snapshot.close()
      }
    }

    it('equals the report rendered by the service, for text, numbers, booleans and JSON', async () => {
      await fill({ string: [null, ...texts], number: [null, ...numbers] })
      const file = await sameFile()
      assert.match(file, /^n,string,number,truth,json\r\n0,,,false,\r\n1,,0,true,/)
      for (const [name, type] of Object.entries(everyCell)) await sameFile({ [name]: type })
      await sameFile(
        { string: 'instant', n: 'integer' },
        "(select n, null as string from cells union select -1, '') as c",
      )
    })

    it('contains only the header line when there are no rows', async () => {
      await fill({})
      assert.equal(await sameFile(), 'n,string,number,truth,json\r\n')
    })

    it(`equals the report rendered by the service, for random text and numbers (SEED=${seed})`, async () => {
      const char = fc.oneof(fc.constantFrom(...'=+-@\t\r\n",\'\\.NA 0'), fc.string({ unit: 'binary', maxLength: 1 }))
      const string = fc
        .array(char, { maxLength: 12 })
        .map((chars) => chars.join('').replaceAll('\0', '').toWellFormed())
      // Outside these ranges, the database and the service switch to exponents at different magnitudes.
      const number = fc.oneof(fc.double({ min: 1e-4, max: 1e14 }), fc.double({ min: -1e14, max: -1e-4 }))
      const row = fc.tuple(fc.option(string), fc.option(number))
      await fc.assert(
        fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 200 }), async (rows) => {
          await fill({ string: rows.map(([text]) => text), number: rows.map(([, number]) => number) })
          await sameFile()
        }),
        { seed, numRuns: 40 },
      )
    })

    it(`contains numbers of any size that read back unchanged (SEED=${seed})`, async () => {
      const all = [...otherwise, ...fc.sample(fc.double({ noNaN: true }), { seed, numRuns: 3_000 })]
      await fill({ number: all })
      const snapshot = await openSnapshot(db.url)
      const { bytes } = await fileOf(snapshot, { number: 'number' })
      await snapshot.close()
      assert.deepEqual(bytes.toString().split('\r\n').slice(1, -1).map(Number), all)
    })

    it('is complete with 40,000 rows, and its progress increases up to 1', async () => {
      const snapshot = await openSnapshot(db.url)
      const from = '(select n, n::text as string from generate_series(1, 40000) as n) as made'
      const { bytes, rowCount, shares } = await fileOf(snapshot, { n: 'integer', string: 'string' }, from)
      await snapshot.close()
      const lines = Array.from({ length: 40_000 }, (_, n) => `${n + 1},${n + 1}\r\n`)
      assert.equal(bytes.toString(), `n,string\r\n${lines.join('')}`)
      assert.equal(rowCount, 40_000)
      assert.ok(shares.length > 3 && shares.every((share, at) => at === 0 || share > (shares[at - 1] as number)))
      assert.equal(shares.at(-1), 1)
    })

    it('is the same even if the connection delivers the data a few bytes at a time', async (t) => {
      await fill({ string: texts.filter((text) => text.length < 100), number: numbers })
      const { url, pieces, close } = await slicing(db.url, 3)
      t.after(close)
      const [whole, cut] = [await openSnapshot(db.url), await openSnapshot(url)]
      t.after(whole.close)
      t.after(cut.close)
      assert.ok((await fileOf(cut, everyCell)).bytes.equals((await fileOf(whole, everyCell)).bytes))
      assert.ok(pieces() > 500, `${pieces()} pieces`)
    })

    it('fails and leaves no file if a row in the middle causes an error', async () => {
      const from = '(select n, 1 / (20000 - n) as number from generate_series(1, 30000) as n) as failing'
      const snapshot = await openSnapshot(db.url)
      await assert.rejects(fileOf(snapshot, { number: 'number', n: 'integer' }, from), /division by zero/)
      await snapshot.close()
      assert.throws(() => readFileSync(join(folder, `r${made - 1}`)), { code: 'ENOENT' })
    })
  })
})

/** Starts a proxy in front of a database server; it forwards the server's responses a few bytes at a time. */
async function slicing(databaseUrl: string, bytes: number) {
  const { hostname, port } = new URL(databaseUrl)
  let pieces = 0
  const proxy = createServer(async (socket) => {
    const server = connect(Number(port || 5_432), hostname)
    socket.setNoDelay(true).on('error', () => {})
    socket.pipe(server).on('error', () => {})
    for await (const chunk of server as AsyncIterable<Buffer>) {
      for (let from = 0; from < chunk.length; from += bytes) {
        socket.write(chunk.subarray(from, from + bytes))
        pieces += 1
        await turn()
      }
    }
    socket.end()
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const address = { hostname: '127.0.0.1', port: String((proxy.address() as AddressInfo).port) }
  return {
    url: Object.assign(new URL(databaseUrl), address).href,
    pieces: () => pieces,
    close: () => void proxy.close(),
  }
}
