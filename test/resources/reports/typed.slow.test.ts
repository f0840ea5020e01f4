import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { folderResults } from '../../../src/files/folder.ts'
import { reportThreads } from '../../../src/reports/generate/report-threads.ts'
import { appOn } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { attempt, reportFile } from '../../support/report-files.ts'
import { unzip } from '../../support/zip.ts'
import { definition, scopes } from './service.ts'

const rows: Record<string, unknown>[] = [
  { status: 'paid', due: '2026-11-30', currency: 'EUR', total: '0.10', seats: 2, weight: 0.25, isOpen: true },
  {
    status: 'paid',
    due: '2026-11-01',
    currency: 'EUR',
    total: '0.20',
    weight: -0.5,
    sentAt: '2026-11-01T01:30:00+02:00',
  },
  { status: 'paid', due: '2026-11-02', currency: 'USD', total: '-7.00', seats: 3, sentAt: '2026-12-31T23:59:59.999Z' },
  { status: 'paid', due: '2026-10-31', total: '9999999999999999.99', note: 'é' },
  { status: 'paid', due: '2026-10-31', total: '9999999999999999.99', note: 'Z', isOpen: false },
  { status: 'paid', due: '2026-12-01', currency: 'EUR', total: '5.00', note: 'a,"b"' },
  { status: 'sent', due: '2026-02-28', currency: 'EUR', total: '1.00', note: '=1+1' },
  { status: 'sent', due: '2026-03-01', currency: 'JPY', total: '0.00', note: '' },
]
const november = { from: '2026-11-01', to: '2026-11-30' }
const all = { from: '2000-01-01', to: '2100-01-01' }
const revenueOfAll = [
  { month: '2026-10', total: '19999999999999999.98', count: 2 },
  { month: '2026-11', currency: 'EUR', total: '0.30', count: 2 },
  { month: '2026-11', currency: 'USD', total: '-7.00', count: 1 },
  { month: '2026-12', currency: 'EUR', total: '5.00', count: 1 },
]

forEachEngine((engine) => {
  describe('a typed report', () => {
    const service = appOn(engine, { definition })
    const at = { service, definition, scopes }
    before(async () => {
      for (const [index, row] of rows.entries()) {
        const payload = { reference: `R-${index}`, ...row }
        const response = await service.send({ method: 'POST', url: '/invoices', payload, scopes })
        assert.equal(response.statusCode, 201, response.body)
      }
    })
    const json = async (name: string, parameters: object = {}) =>
      JSON.parse(String(await reportFile(at, name, parameters)))
    const request = (reportType: string, parameters?: unknown, format = 'csv') =>
      service.send({
        ...{ method: 'POST', url: '/api/reports', scopes },
        payload: { reportType, format, ...(parameters !== undefined && { parameters }) } as object,
      })
    const errorsOf = async (...sent: Parameters<typeof request>) => {
      const response = await request(...sent)
      const errors = (response.json().errors ?? []) as { field: string; message: string }[]
      return { status: response.statusCode, errors: errors.map(({ field, message }) => `${field} ${message}`).sort() }
    }

    it('groups the rows selected by its condition, and sorts the groups by their values', async () => {
      assert.deepEqual(await json('revenue', all), revenueOfAll)
      assert.deepEqual(await json('revenue', november), revenueOfAll.slice(1, 3))
      assert.deepEqual(await json('revenue', { from: '2027-01-01', to: '2027-12-31' }), [])
    })

    it('without `group`, has one row of exact sums, minimums, maximums and a count', async () => {
      assert.deepEqual(await json('totals'), [
        {
          ...{ sum: '19999999999999998.28', least: '-7.00', most: '9999999999999999.99', seats: 5, weight: -0.25 },
          ...{ lightest: -0.5, first: '2026-10-31', last: '2026-12-31T23:59:59.999Z', rows: 6 },
        },
      ])
    })

    it('has a zero sum with the scale of the field, and no minimum, if there are no rows', async () => {
      assert.deepEqual(await json('totals', { status: 'draft' }), [{ sum: '0.00', seats: 0, weight: 0, rows: 0 }])
    })

    it('accepts decimal, integer, instant and enumeration parameters in its condition', async () => {
      const rowsOf = async (parameters: object) => (await json('totals', parameters))[0].rows
      assert.equal(await rowsOf({ minimum: '5' }), 3)
      assert.equal(await rowsOf({ minimum: 9999999999999.5 }), 2)
      assert.equal(await rowsOf({ seats: 3 }), 1)
      assert.equal(await rowsOf({ since: '2026-10-31T23:30:00Z' }), 2)
      assert.equal(await rowsOf({ status: 'sent' }), 2)
    })

    it('groups by days, months and years in UTC', async () => {
      assert.deepEqual(await json('parts'), [
        { day: '2026-10-31', month: '2026-10', year: '2026', rows: 1 },
        { day: '2026-12-31', month: '2026-12', year: '2026', rows: 1 },
        { year: '2026', rows: 6 },
      ])
    })

    it('without `show`, lists the groups, sorted by their values, with absent values last', async () => {
      const groups = await json('groups')
      assert.deepEqual(groups.slice(0, 2), [
        { isOpen: false, total: '9999999999999999.99', note: 'Z' },
        { isOpen: true, seats: 2, weight: 0.25, total: '0.10' },
      ])
      assert.deepEqual(
        groups.slice(2).map(({ total }: { total: string }) => total),
        ['-7.00', '0.20', '0.00', '1.00', '5.00', '9999999999999999.99'],
      )
    })

    it('without `group` and `show`, contains the rows selected by its condition', async () => {
      const [only, ...others] = await json('overdue')
      assert.deepEqual(others, [])
      assert.deepEqual(only, {
        ...{ id: 7, reference: 'R-6', ...rows[6] },
        ...{ createdAt: only.createdAt, updatedAt: only.updatedAt },
      })
    })

    it('evaluates its condition again when the task runs', async () => {
      const before = service.clock.now
      try {
        const meanwhile = () => {
          service.clock.now = Date.parse('2026-03-02T00:00:00Z')
        }
        const file = await reportFile(at, 'overdue', {}, { meanwhile })
        assert.deepEqual(
          JSON.parse(String(file)).map(({ id }: { id: number }) => id),
          [7, 8],
        )
      } finally {
        service.clock.now = before
      }
    })

    it('has the same rows in CSV, NDJSON and XLSX, and can be generated as a PDF', async () => {
      const of = (format: string) => reportFile(at, 'revenue', all, { format })
      const lines = revenueOfAll.map(
        ({ month, currency = '', total, count }) => `${month},${currency},${total},${count}`,
      )
      assert.equal(String(await of('csv')), ['month,currency,total,count', ...lines, ''].join('\r\n'))
      assert.equal(String(await of('ndjson')), revenueOfAll.map((row) => `${JSON.stringify(row)}\n`).join(''))
      const sheet = String(unzip(await of('xlsx')).get('xl/worksheets/sheet1.xml'))
      assert.match(
        sheet,
        /<t xml:space="preserve">2026-11<\/t><\/is><\/c><c t="inlineStr"><is><t xml:space="preserve">EUR/,
      )
      assert.match(sheet, /<c s="7"><v>0.30<\/v><\/c><c><v>2<\/v><\/c>/)
      assert.match(sheet, /<t>19999999999999999.98<\/t>/)
      assert.equal((await of('pdf')).subarray(0, 5).toString(), '%PDF-')
    })

    it('escapes group text in CSV', async () => {
      const file = String(await reportFile(at, 'groups', {}, { format: 'csv' }))
      assert.ok(file.includes('"a,""b"""\r\n'), file)
      assert.ok(file.includes(",'=1+1\r\n"), file)
    })

    it('can be generated in a worker thread', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'plinth-typed-'))
      try {
        const response = await request('revenue', all, 'ndjson')
        const produce = reportThreads({ databaseUrl: service.db.url, resultsUrl: `file:${folder}` }).produce
        const results = folderResults(folder)
        const { task } = await attempt({ ...at, service: { ...service, results } }, response.json().taskId, { produce })
        assert.deepEqual([task.status, task.rowCount], ['completed', 4])
      } finally {
        rmSync(folder, { recursive: true, force: true })
      }
    })

    it('400 naming every parameter that is missing or has the wrong type', async () => {
      const [from, to] = ['parameters.from is required', 'parameters.to is required']
      for (const parameters of [undefined, {}]) {
        assert.deepEqual(await errorsOf('revenue', parameters), { status: 400, errors: [from, to] })
      }
      assert.deepEqual(await errorsOf('revenue', { from: 7 }), {
        ...{ status: 400, errors: ['parameters.from must be string', to] },
      })
      assert.equal((await errorsOf('revenue', 'all')).status, 400)
    })

    it('422 naming every parameter that breaks a rule or is unknown', async () => {
      assert.deepEqual(
        await errorsOf('revenue', { from: '2026-02-30', to: '2026', form: 1, fields: ['month'] }, 'doc'),
        {
          status: 422,
          errors: [
            'format must be one of: json, csv, ndjson, xlsx, pdf',
            'parameters.fields is unknown: use one of from, to',
            'parameters.form is unknown: did you mean from?',
            'parameters.from must match format "date"',
            'parameters.to must match format "date"',
          ],
        },
      )
      assert.deepEqual(await errorsOf('parts', { from: '2026-01-01' }), {
        ...{ status: 422, errors: ['parameters.from is unknown: this report has no parameters'] },
      })
      assert.deepEqual((await errorsOf('totals', { status: 'late', minimum: '1.234', seats: 0 })).errors, [
        'parameters.minimum must have at most 2 digits after the decimal point',
        'parameters.seats must be >= 1',
        'parameters.status must be one of draft, sent, paid',
      ])
    })

    it('202 with handling=strict if all parameters are declared', async () => {
      const payload = { reportType: 'revenue', format: 'csv', parameters: november }
      const headers = { prefer: 'handling=strict' }
      const response = await service.send({ method: 'POST', url: '/api/reports', payload, headers, scopes })
      assert.equal(response.statusCode, 202, response.body)
    })

    it('uses parameters only in its condition, even parameters named `fields`, `sort` or `filter`', async () => {
      const parameters = { fields: ['R-0', 'R-1'], sort: 'R-2', filter: { seats: 3 } }
      const [only, ...others] = await json('named', parameters)
      assert.deepEqual([only.reference, only.total, others], ['R-2', '-7.00', []])
      await reportFile(at, 'named', parameters, { format: 'pdf' })
    })

    it('does not affect the parameters of other reports', async () => {
      assert.equal((await request('invoices', { fields: ['id'], sort: '-id' })).statusCode, 202)
      const { status, errors } = await errorsOf('invoices', { from: 'x', of: 1 })
      assert.equal(status, 422)
      assert.equal(errors.length, 2)
    })

    it('202 with parameters that include the defaults; a retry uses the same parameters', async () => {
      const task = (await request('totals', { minimum: 1 })).json()
      assert.deepEqual(task.parameters, { status: 'paid', minimum: '1.00' })
      await attempt(at, task.taskId)
      const retry = await service.send({ method: 'POST', url: `/api/reports/${task.taskId}/retry`, scopes })
      assert.deepEqual([retry.statusCode, retry.json().parameters], [202, task.parameters])
    })

    it('403 without the read scope of the resource', async () => {
      const payload = { reportType: 'revenue', format: 'csv', parameters: all }
      const lacking = { method: 'POST', url: '/api/reports', payload, scopes: 'reports:write' } as const
      const response = await service.send(lacking)
      assert.equal(response.statusCode, 403)
      assert.match(response.body, /invoices:read/)
    })

    it('lists its columns and parameters in /api/report-types, and its parameters in OpenAPI', async () => {
      const types = (await service.send({ url: '/api/report-types', scopes })).json() as Record<string, unknown>[]
      const { formats, ...revenue } = types.find(({ reportType }) => reportType === 'revenue') ?? {}
      assert.deepEqual(revenue, {
        ...{ reportType: 'revenue', title: 'Revenue by month', scope: 'invoices:read' },
        columns: [
          { name: 'month', type: 'string' },
          { name: 'currency', type: 'string' },
          { name: 'total', type: 'decimal' },
          { name: 'count', type: 'integer' },
        ],
        parameters: {
          type: 'object',
          required: ['from', 'to'],
          properties: { from: { type: 'string', format: 'date' }, to: { type: 'string', format: 'date' } },
          additionalProperties: false,
        },
      })
      const document = (await service.send({ url: '/openapi.json' })).json()
      const { properties } = document.components.schemas.ReportCreate
      const described = properties.parameters.anyOf.find(({ description = '' }) => description.endsWith(' revenue'))
      assert.deepEqual(Object.keys(described.properties), ['from', 'to'])
    })
  })
})
