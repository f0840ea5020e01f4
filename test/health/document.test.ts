import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { allChecks } from '../../src/health/examine.ts'
import { expectTable } from '../support/pages.ts'

const head = '| Id | Check | Result |\n|---|---|---|\n'
const rows = allChecks.map(({ id, title, rule }) => `| \`${id}\` | ${title} | ${rule} |\n`)

describe('the table of checks in docs/operations.md', () => {
  it('lists every check with its rule (run with UPDATE=1 to rewrite the table)', () => {
    expectTable('operations.md', head, rows)
  })

  it('has unique ids', () => {
    const ids = allChecks.map(({ id }) => id)
    assert.deepEqual([...new Set(ids)], ids)
  })
})
