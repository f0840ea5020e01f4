import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { bundledLicences, isPermissive, licencesOf, licencesPage } from '../../scripts/licences.ts'

const page = fileURLToPath(new URL('../../docs/licences.md', import.meta.url))

describe('docs/licences.md', () => {
  it('lists every production dependency; all have permissive licenses', () => {
    const text = licencesPage(licencesOf())
    if (process.env.UPDATE) writeFileSync(page, text)
    assert.equal(readFileSync(page, 'utf8'), text, 'UPDATE=1 writes the page')
    const { dependencies } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
    for (const name of Object.keys(dependencies)) assert.match(text, new RegExp(`^\\| ${name} \\| `, 'm'))
  })

  it('the console’s build contains only packages with permissive licenses', () => {
    const bundled = bundledLicences()
    assert.ok(bundled.some(({ name }) => name === 'react'))
    assert.deepEqual(
      bundled.filter(({ licence }) => !isPermissive(licence)),
      [],
    )
  })

  it('licencesOf throws for packages with a license that is not permissive, or with none, and names them', () => {
    const folder = mkdtempSync(join(tmpdir(), 'plinth-licences-'))
    const packages = {
      '': { version: '1.0.0' },
      'node_modules/fine': { version: '1.0.0', license: 'ISC' },
      'node_modules/tool': { version: '1.0.0', license: 'GPL-3.0-only', dev: true },
      'node_modules/@a/copyleft': { version: '2.0.0', license: 'GPL-3.0-only' },
      'node_modules/fine/node_modules/silent': { version: '3.0.0' },
    }
    writeFileSync(join(folder, 'package-lock.json'), JSON.stringify({ packages }))
    assert.throws(
      () => licencesOf(folder),
      /^Error: No permissive licence: @a\/copyleft 2\.0\.0 \(GPL-3\.0-only\), silent 3\.0\.0 \(none\); allowed are /,
    )
    rmSync(folder, { recursive: true })
  })

  for (const [expression, expected] of [
    ['MIT', true],
    ['(GPL-2.0-only OR MIT)', true],
    ['(MIT AND LGPL-3.0-only)', false],
    ['SEE LICENSE IN LICENSE', false],
  ] as const) {
    it(`isPermissive returns ${expected} for ${expression}`, () => assert.equal(isPermissive(expression), expected))
  }
})
