import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import * as plinth from '../../../src/plinth.ts'

const page = readFileSync(new URL('../../../docs/resources.md', import.meta.url), 'utf8')
const names = Object.keys(plinth)

/** Runs the first code example of a section with the missing imports and export added; returns its definition. */
const run = async (section: string) => {
  const [, code = ''] = new RegExp(`## ${section}\\n[\\s\\S]*?\`\`\`ts\\n([\\s\\S]*?)\`\`\``).exec(page) ?? []
  const whole = code.includes('export default') ? code : `${code}\nexport default service({ resources: [invoices] })`
  const imports = `import { ${names.join(', ')} } from '${new URL('../../../src/plinth.ts', import.meta.url)}'`
  const program = `${imports}\n${whole.replace(/import .*\n/, '')}`
  return (await import(`data:text/javascript,${encodeURIComponent(program)}`)).default as plinth.Definition
}

describe('the example in docs/resources.md', () => {
  it('under "Computed fields" declares stored and computed columns, and a time zone', async () => {
    const { tables, zone } = await run('Computed fields')
    const columns = tables[0]?.columns.map(({ name }) => name)
    assert.deepEqual([columns, zone], [['title', 'status', 'due', 'total', 'line_count'], 'Europe/Berlin'])
  })

  it('under "Locked rows" locks paid invoices', async () => {
    const [invoices] = (await run('Locked rows')).collections
    assert.deepEqual(invoices?.declaration.locked?.condition, { status: 'paid' })
  })

  it('under "Gap-free numbers" has a function as the default of `reference`', async () => {
    const [invoices] = (await run('Gap-free numbers')).collections
    assert.equal(typeof invoices?.declaration.defaults.reference, 'function')
  })
})
