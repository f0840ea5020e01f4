import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { textOf } from '../../src/cli/doctor.ts'
import type { HealthReport } from '../../src/health/examine.ts'
import { onSqlite } from '../support/engines.ts'
import { commandRunner, ended, killAll, plinth } from './support.ts'

describe('plinth doctor', () => {
  let folder: string
  let runner: ReturnType<typeof commandRunner>
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'plinth-doctor-'))
    runner = commandRunner({ PLINTH_DATA_DIR: join(folder, 'data') })
  })
  after(() => {
    killAll()
    runner.close()
    rmSync(folder, { recursive: true, force: true })
  })

  it('exits with 0 before the first start, suggests fixes, and creates no file', async () => {
    const { code, stdout, stderr } = await ended(plinth(['doctor'], { PLINTH_DATA_DIR: join(folder, 'data') }))
    assert.deepEqual([code, stderr], [0, ''])
    assert.match(stdout, /^runtime\n {2}pass {2}Node\.js release {2,}\d+\./)
    assert.match(
      stdout,
      /\n {2}warn {2}Data folder {2,}\S+ does not exist\n {20,}→ The first `plinth serve` creates it\n/,
    )
    assert.match(stdout, /\n\d+ passed, \d+ warnings, 0 failures\n$/)
    assert.equal(existsSync(join(folder, 'data')), false)
  })

  it('--strict exits with 1 if a check warns', async () => {
    assert.equal((await runner.run(['doctor', '--strict'])).code, 1)
  })

  it('exits with 1 if a check fails; --json prints the report', async () => {
    const { code, stdout } = await runner.run(['doctor', '--json'], '', { PLINTH_PROFILE: 'production' })
    const { status, checkedAt, checks } = JSON.parse(stdout) as HealthReport
    assert.deepEqual([code, status, new Date(checkedAt).toISOString()], [1, 'fail', checkedAt])
    const url = checks.find(({ id }) => id === 'settings.base-url')
    assert.deepEqual(Object.keys(url ?? {}), ['id', 'area', 'title', 'status', 'detail', 'cure'])
  })

  it('exits with 1 for NODE_TLS_REJECT_UNAUTHORIZED=0 in production', async () => {
    const env = {
      PLINTH_DATA_DIR: join(folder, 'data'),
      PLINTH_PROFILE: 'production',
      NODE_TLS_REJECT_UNAUTHORIZED: '0',
    }
    const { code, stdout } = await ended(plinth(['doctor'], env))
    assert.equal(code, 1)
    assert.match(stdout, /fail {2}Node\.js options .*NODE_TLS_REJECT_UNAUTHORIZED=0/)
  })

  it('exits with 2 for an invalid setting and for a definition that does not exist', async () => {
    const setting = await runner.run(['doctor'], '', { PLINTH_PORT: 'x' })
    assert.deepEqual([setting.code, setting.stdout], [2, ''])
    const definition = await runner.run(['doctor', join(folder, 'none.ts')])
    assert.deepEqual([definition.code, definition.stdout], [2, ''])
  })

  onSqlite((engine) => {
    it('--deep changes nothing in the folder of a stopped service', async (t) => {
      const place = await engine.migratedPlace()
      t.after(place.remove)
      const path = place.url.replace('file:', '')
      const stateOf = () => [readdirSync(join(path, '..')), hash('sha256', readFileSync(path))]
      const earlier = stateOf()
      const { code, stdout } = await runner.run(['doctor', '--deep'], '', { DATABASE_URL: place.url })
      assert.equal(code, 1, 'the master key is missing')
      assert.match(stdout, /File integrity +No damage/)
      assert.deepEqual(stateOf(), earlier)
    })
  })
})

describe('the text of a health report', () => {
  const detail = 'a certificate that expires in a few days, after which no client can connect to the service any more'
  const report: HealthReport = {
    ...{ status: 'fail', checkedAt: '2026-01-01T00:00:00.000Z' },
    checks: [
      { id: 'tls.expiry', area: 'TLS', title: 'Certificate expiry', status: 'fail', detail, cure: 'Renew it' },
      { id: 'audit.chain', area: 'audit', title: 'Audit log', status: 'pass', detail: 'intact' },
    ],
  }
  const out = (columns: number | undefined) => ({ write: () => true, isTTY: columns !== undefined, columns }) as never

  it('is wrapped to the width of a terminal, with colors', () => {
    for (const columns of [80, 120]) {
      const text = textOf(report, out(columns), {})
      assert.ok(text.includes('\u001b[31mfail'))
      const lines = stripVTControlCharacters(text).split('\n')
      assert.ok(lines.every((line) => line.length <= columns))
      assert.equal(lines[1]?.startsWith('  fail  Certificate expiry  a certificate'), true)
      assert.equal(lines[2]?.search(/\S/), 28)
    }
  })

  it('has no colors with NO_COLOR, and neither colors nor wrapping outside a terminal', () => {
    const lines = ['TLS', `  fail  Certificate expiry  ${detail}`, `${' '.repeat(28)}→ Renew it`, '', 'audit']
    assert.deepEqual(textOf(report, out(undefined), {}).split('\n').slice(0, 5), lines)
    assert.equal(textOf(report, out(80), { NO_COLOR: '1' }).includes('\u001b'), false)
  })
})
