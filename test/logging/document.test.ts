import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { entries } from '../../src/logging/entries.ts'
import { expectTable } from '../support/pages.ts'

const head = '| Message | Level | Members | When |\n|---|---|---|---|\n'

const rows = Object.entries(entries).map(([message, { level, fields, when }]) => {
  const members = fields.map((field) => `\`${field}\``).join(', ')
  return `| \`${message}\` | ${level} | ${members} | ${when} |\n`
})

describe('the table of log messages in docs/operations.md', () => {
  it('lists every message with its level and members (run with UPDATE=1 to rewrite the table)', () => {
    expectTable('operations.md', head, rows)
  })

  it('lists only messages that occur in the code', () => {
    const cwd = new URL('../../src', import.meta.url).pathname
    const files = globSync('**/*.ts', { cwd }).filter((file) => file !== 'logging/entries.ts')
    const code = files.map((file) => readFileSync(`${cwd}/${file}`, 'utf8')).join('\n')
    assert.deepEqual(
      Object.keys(entries).filter((message) => !code.includes(`'${message}')`)),
      [],
    )
  })
})
