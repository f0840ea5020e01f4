import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { loadDefinition } from '../../../src/cli/load-definition.ts'
import { migrate } from '../../../src/storage/migrate.ts'
import { testApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { reportFile } from '../../support/report-files.ts'

const page = readFileSync(new URL('../../../docs/reports.md', import.meta.url), 'utf8')
const shown = (language: string) => new RegExp(`\`\`\`${language}\\n([^\`]+)\`\`\``).exec(page)?.[1] as string
const scopes = 'invoices:read invoices:write reports:read reports:write'

forEachEngine((engine) => {
  describe('docs/reports.md', () => {
    it('has an example of a typed report, with a valid request and its actual result', async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'plinth-documented-'))
      t.after(() => rmSync(folder, { recursive: true }))
      const file = join(folder, 'service.ts')
      const library = new URL('../../../bin/import.js', import.meta.url).href
      writeFileSync(file, shown('ts').replace("'plinth'", `'${library}'`))
      const definition = await loadDefinition(file)
      const db = await engine.database()
      t.after(() => db.close())
      await migrate(db, { tables: definition.tables })
      const service = { ...(await testApp(db, { definition })), db }
      t.after(() => service.app.close())
      for (const [due, currency, total] of [
        ['2026-11-30', 'EUR', '1000.00'],
        ['2026-11-01', 'EUR', '249.90'],
        ['2026-11-02', 'EUR', '0.10'],
        ['2026-11-02', 'USD', '80.50'],
        ['2027-01-01', 'USD', '1.00'],
      ]) {
        const payload = { reference: 'R', status: 'paid', due, currency, total }
        const response = await service.send({ method: 'POST', url: '/invoices', payload, scopes })
        assert.equal(response.statusCode, 201, response.body)
      }
      const { reportType, format, parameters } = JSON.parse(shown('json'))
      const result = await reportFile({ service, definition, scopes }, reportType, parameters, { format })
      assert.equal(String(result), shown('csv').replaceAll('\n', '\r\n'))
    })
  })
})
