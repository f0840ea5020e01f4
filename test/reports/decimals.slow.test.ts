import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { sql } from 'kysely'
import { Type } from 'typebox'
import { service as define } from '../../src/definition/service.ts'
import { folderResults } from '../../src/files/folder.ts'
import { reportKinds } from '../../src/mount-versions.ts'
import { layout } from '../../src/reports/formats/pdf-layout.ts'
import { checkReports } from '../../src/reports/generate/check.ts'
import { generate } from '../../src/reports/generate/generate.ts'
import type { ReportKind } from '../../src/reports/report-types.ts'
import { collection } from '../../src/resources/collection.ts'
import { Decimal } from '../../src/resources/decimal-fields.ts'
import { appOn, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { produceHere } from '../support/reports.ts'
import { unzip } from '../support/zip.ts'

const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({
    amount: Decimal(18, 2),
    fine: Type.Optional(Decimal(18, 18)),
    whole: Type.Optional(Decimal(18, 0)),
  }),
  filters: ['amount'],
  ranges: ['amount'],
  sorts: ['amount'],
})
const definition = define({ resources: [lines] })
const scopes = 'lines:read lines:write reports:read reports:write'
const rows = [
  { amount: '12.50', fine: '0.000000000000000001', whole: '-7' },
  { amount: '-0.05' },
  { amount: '9999999999999999.99', fine: '-0.999999999999999999', whole: '999999999999999999' },
  { amount: '9999999999999999.98', whole: '0' },
  { amount: '-9999999999999999.99', fine: '0.000000000000000000' },
  { amount: '0.00', fine: '0.500000000000000000', whole: '12' },
]

forEachEngine((engine) => {
  describe('a report with decimals', () => {
    const service = appOn(engine, { definition })
    const folder = mkdtempSync(join(tmpdir(), 'plinth-decimals-'))
    before(async () => {
      for (const payload of rows) {
        const response = await service.send({ method: 'POST', url: '/lines', payload, scopes })
        assert.equal(response.statusCode, 201, response.body)
      }
    })
    after(() => rmSync(folder, { recursive: true, force: true }))

    const request = (format: string, parameters: object) =>
      service.send({
        ...{ method: 'POST', url: '/api/reports', token: token(scopes, 'cli_a') },
        payload: { reportType: 'lines', format, parameters },
      })

    /** Requests and generates a report, and returns its file. */
    async function fileOf(format: string, parameters: object = {}): Promise<Buffer> {
      const response = await request(format, parameters)
      assert.equal(response.statusCode, 202, response.body)
      const { taskId } = response.json()
      const { db } = service
      const results = folderResults(folder)
      const queue = { enqueue: async () => {}, work: () => {}, stop: async () => {} }
      const services = { db, queue, results, kinds: reportKinds(definition), now: () => 0, random: randomBytes }
      const job = { payload: { taskId }, attempt: 1, signal: new AbortController().signal, finish: async () => {} }
      await generate({ ...services, produce: produceHere(results, db.url), resultSeconds: 60 })(job)
      return readFileSync(join(folder, `${taskId}-1`))
    }
    const fields = ['amount', 'fine', 'whole']
    const amounts = async (parameters: object) => {
      const text = String(await fileOf('ndjson', { fields: ['amount'], ...parameters }))
      return text
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line).amount)
    }

    it('contains the exact text of decimals in CSV, and does not treat negative decimals as formulas', async () => {
      const expected = rows.map(({ amount, fine = '', whole = '' }) => `${amount},${fine},${whole}\r\n`)
      assert.equal(String(await fileOf('csv', { fields })), `amount,fine,whole\r\n${expected.join('')}`)
      assert.equal(
        String(await fileOf('csv', { fields: ['fine'] })),
        `fine\r\n${rows.map(({ fine = '' }) => `${fine}\r\n`).join('')}`,
      )
    })

    it('contains decimals as strings in JSON and NDJSON', async () => {
      assert.deepEqual(JSON.parse(String(await fileOf('json', { fields }))), rows)
      const lines = String(await fileOf('ndjson', { fields })).split('\n')
      assert.equal(lines[0], '{"amount":"12.50","fine":"0.000000000000000001","whole":"-7"}')
    })

    it('contains decimals of up to 15 significant digits as XLSX numbers with all decimal places, and longer decimals as text', async () => {
      const files = unzip(await fileOf('xlsx', { fields }))
      const sheet = String(files.get('xl/worksheets/sheet1.xml'))
      const styles = String(files.get('xl/styles.xml'))
      const cellXfs = [...(/<cellXfs.*<\/cellXfs>/.exec(styles)?.[0] ?? '').matchAll(/<xf [^>]*>/g)]
      const codeOf = (style: number) =>
        new RegExp(`numFmtId="${/numFmtId="(\d+)"/.exec(cellXfs[style]?.[0] ?? '')?.[1]}" formatCode="([^"]*)"`).exec(
          styles,
        )?.[1]
      const cells = [...sheet.matchAll(/<c s="(\d+)"><v>([^<]*)<\/v><\/c>/g)].map(([, style, value]) => [
        value,
        codeOf(Number(style)),
      ])
      assert.deepEqual(cells.slice(0, 4), [
        ['12.50', '0.00'],
        ['0.000000000000000001', `0.${'0'.repeat(18)}`],
        ['-7', '0'],
        ['-0.05', '0.00'],
      ])
      assert.ok(sheet.includes('t="inlineStr"><is><t>9999999999999999.99</t></is></c>'))
      assert.ok(sheet.includes('t="inlineStr"><is><t>999999999999999999</t></is></c>'))
      assert.ok(!sheet.includes('<v>9999999999999999'))
      assert.equal(cellXfs.length, Number(/<cellXfs count="(\d+)"/.exec(styles)?.[1]))
    })

    it('aligns decimals to the right in PDF', async () => {
      assert.equal((await fileOf('pdf', { fields })).subarray(0, 5).toString(), '%PDF-')
      const { default: PdfDocument } = await import('pdfkit')
      const [kind] = reportKinds(definition) as [ReportKind]
      const sheet = { title: '', columns: kind.columns, rowCount: 0, madeAt: '2026-01-01T00:00:00.000Z', font: null }
      const { columns } = layout(new PdfDocument(), sheet, [])
      assert.deepEqual(
        columns.filter(({ alignRight }) => alignRight).map(({ name }) => name),
        ['id', ...fields],
      )
    })

    it('compares decimals exactly in filters, bounds and sorts', async () => {
      assert.deepEqual(await amounts({ filter: { amount: '9999999999999999.98' } }), ['9999999999999999.98'])
      assert.deepEqual(await amounts({ filter: { amount: '12.5' } }), ['12.50'])
      assert.deepEqual(await amounts({ filter: { minAmount: 12.5 } }), [
        '12.50',
        '9999999999999999.99',
        '9999999999999999.98',
      ])
      assert.deepEqual(await amounts({ filter: { minAmount: '-0.05', maxAmount: '0' } }), ['-0.05', '0.00'])
      const sorted = rows
        .map(({ amount }) => amount)
        .toSorted((a, b) => (BigInt(a.replace('.', '')) < BigInt(b.replace('.', '')) ? -1 : 1))
      assert.deepEqual(await amounts({ sort: ['amount'] }), sorted)
      assert.deepEqual(await amounts({ sort: ['-amount', 'id'] }), sorted.toReversed())
      assert.deepEqual(await amounts({ sort: ['amount'], fields: ['amount', 'id'] }), sorted)
    })

    const refused: [value: unknown, message: RegExp][] = [
      ['1.005', /must have at most 2 digits after the decimal point/],
      ['a', /must be a decimal number such as/],
      [true, /must be a decimal number such as/],
      [1234567890123456, /more than 15 significant digits/],
    ]
    for (const [value, message] of refused) {
      it(`422 for filtering by ${value}`, async () => {
        const response = await request('csv', { filter: { minAmount: value } })
        const [error] = response.json().errors
        assert.deepEqual([response.statusCode, error.field], [422, 'parameters.filter.minAmount'], response.body)
        assert.match(error.message, message)
      })
    }

    it('has filters documented as decimal strings', async () => {
      const [type] = (await service.send({ url: '/api/report-types', scopes })).json()
      const { amount } = type.parameters.properties.filter.properties
      const pattern = '^-?(0|[1-9][0-9]{0,15})(\\.[0-9]{1,2})?$'
      assert.deepEqual(amount, { type: 'string', pattern })
    })

    it('has SQL that the database compiles', async () => {
      await checkReports(service.db, reportKinds(definition).slice(0, 1))
    })

    it('contains all rows in order when sorted by a decimal, even across several pages', async () => {
      const numbers = 'with recursive n (n) as (select 1 union all select n + 1 from n where n < 700)'
      const at = "'2026-01-01T00:00:00.000Z'"
      const statement = `insert into resource_lines (amount, revision, created_at, updated_at)
        ${numbers} select 9007199254740993 + n * 7919 % 701, 1, ${at}, ${at} from n`
      await service.db.write((tx) => sql.raw(statement).execute(tx))
      const found = await amounts({
        sort: ['-amount'],
        filter: { minAmount: '90071992547409.93', maxAmount: '90071992547500.00' },
      })
      const expected = Array.from({ length: 700 }, (_, at) => 9007199254740993n + BigInt(((at + 1) * 7919) % 701)).sort(
        (a, b) => (a > b ? -1 : 1),
      )
      assert.deepEqual(
        found.map((text) => BigInt(text.replace('.', ''))),
        expected,
      )
    })
  })
})
