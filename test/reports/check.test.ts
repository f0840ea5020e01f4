import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { reportKinds } from '../../src/mount-versions.ts'
import { checkReports } from '../../src/reports/generate/check.ts'
import type { ReportKind } from '../../src/reports/report-types.ts'
import { DefinitionError } from '../../src/startup-errors.ts'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'

const sound: ReportKind = {
  ...{ name: 'sales', scope: null, from: 'products', key: ['id'] },
  columns: [
    { name: 'id', type: 'integer', sql: 'id' },
    { name: 'total', type: 'number', sql: 'price * 2' },
  ],
  time: { column: 'created_at', type: 'instant' },
  filters: [{ name: 'minPrice', type: 'number', column: 'price', op: '>=', folded: false }],
  sorts: { name: 'name_key', price: 'price' },
}

forEachEngine((engine) => {
  describe("validation of report types' SQL at startup", () => {
    let db: Database
    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())

    /** Returns the lines of the error message for these reports, or none if they are valid. */
    const refusals = async (...kinds: ReportKind[]): Promise<string[]> => {
      try {
        await checkReports(db, kinds)
        return []
      } catch (error) {
        assert.ok(error instanceof DefinitionError, String(error))
        assert.equal(error.exitCode, 2)
        return error.message.split('\n')
      }
    }

    it('accepts correct SQL, including the SQL of every built-in type', async () => {
      assert.deepEqual(await refusals(), [])
      assert.deepEqual(await refusals(sound, ...reportKinds(builtIn)), [])
    })

    it("reports every invalid SQL fragment with the database's error", async () => {
      const [id, total] = sound.columns as [ReportKind['columns'][number], ReportKind['columns'][number]]
      const lines = await refusals({
        ...sound,
        columns: [id, { ...total, sql: 'pricee * 2' }],
        key: ['number'],
        time: { column: 'sold_at', type: 'instant' },
        filters: [{ name: 'genre', type: 'string', column: 'genre_key', op: '=', folded: true }],
        sorts: { price: 'price', title: 'title_key' },
        owned: { client: 'owner_client', adminSeesAll: true },
      })
      const expected: [part: string, column: string][] = [
        ["the column 'total' (pricee * 2)", 'pricee'],
        ['key (number)', 'number'],
        ['time (sold_at)', 'sold_at'],
        ['owned (owner_client)', 'owner_client'],
        ["the filter 'genre' (genre_key = …)", 'genre_key'],
        ["the sort 'title' (title_key)", 'title_key'],
      ]
      assert.equal(lines.length, expected.length, lines.join('\n'))
      for (const [at, [part, column]] of expected.entries()) {
        const line = lines[at] as string
        assert.ok(line.startsWith(`service: the report 'sales' has wrong SQL in ${part}: `), line)
        assert.match(
          line.slice(line.indexOf('): ')),
          new RegExp(`no such column: ${column}|"${column}" does not exist`),
        )
      }
    })

    it('reports a missing table once', async () => {
      const [line, ...others] = await refusals({ ...sound, from: 'sales  join\n products using (id)' })
      assert.deepEqual(others, [])
      assert.match(
        line as string,
        /^service: the report 'sales' has wrong SQL in from \(sales join products using \(id\)\): .*(no such table: |")sales/,
      )
    })

    it('reports the SQL syntax errors of every faulty report', async () => {
      const lines = await refusals({ ...sound, name: 'one', from: 'products where' }, sound, {
        ...sound,
        name: 'two',
        columns: [{ name: 'id', type: 'integer', sql: 'id +' }],
      })
      assert.deepEqual(
        lines.map((line) => line.replace(/\): .*$/, ')')),
        [
          "service: the report 'one' has wrong SQL in from (products where)",
          "service: the report 'two' has wrong SQL in the column 'id' (id +)",
        ],
        lines.join('\n'),
      )
    })

    it('does not execute the SQL', async () => {
      const wide = 'products as one cross join products as two'
      const endless = `(with recursive counted (n) as (select 1 union all select n + 1 from counted) select n from counted) as all_of_them`
      const kind = {
        ...sound,
        name: 'endless',
        from: endless,
        key: ['n'],
        columns: [{ name: 'n', type: 'integer' as const, sql: 'n' }],
      }
      const { time: _, filters: __, sorts: ___, ...bare } = kind
      assert.deepEqual(await refusals(bare), [])
      const twice = { ...bare, name: 'twice', from: wide, key: ['one.id', 'two.id'] }
      assert.deepEqual(await refusals({ ...twice, columns: [{ name: 'n', type: 'integer', sql: 'one.id' }] }), [])
    })
  })
})
