import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { allChecks } from '../../src/health/examine.ts'

const path = new URL('../../docs/operations.md', import.meta.url)
const head = '| Id | Check | Result |\n|---|---|---|\n'
const rows = allChecks.map(({ id, title, rule }) => `| \`${id}\` | ${title} | ${rule} |\n`)

describe('the table of checks in docs/operations.md', () => {
  it('lists every check with its rule (UPDATE=1 writes it)', () => {
    const text = readFileSync(path, 'utf8')
    const start = text.indexOf(head) + head.length
    const end = text.indexOf('\n\n', start - 1) + 1
    const written = text.slice(0, start) + rows.join('') + text.slice(end)
    if (process.env.UPDATE === '1') writeFileSync(path, written)
    assert.equal(readFileSync(path, 'utf8'), written)
  })

  it('has unique ids', () => {
    const ids = allChecks.map(({ id }) => id)
    assert.deepEqual([...new Set(ids)], ids)
  })
})
