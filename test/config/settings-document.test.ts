import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { it } from 'node:test'
import { readConfig } from '../../src/config/config.ts'
import { describeSettings } from '../../src/config/describe.ts'

const path = new URL('../../docs/settings.md', import.meta.url)

const defaults = (profile: string) => {
  const env = { PLINTH_PROFILE: profile }
  return describeSettings(readConfig(env), env)
}

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('<', '&lt;')
const code = (value: string) => (value === '' || value === '(unset)' ? '' : `\`${cell(value)}\``)

function document(): string {
  const production = new Map(defaults('production').map(({ name, value }) => [name, value]))
  const rows = defaults('development').map(({ name, value, about }) => {
    const other = production.get(name) ?? ''
    const differs = other !== value && name !== 'PLINTH_PROFILE'
    const inProduction = differs ? code(other) || 'none' : ''
    return `| \`${name}\` | ${name === 'PLINTH_PROFILE' ? '`development`' : code(value)} | ${inProduction} | ${cell(about)} |`
  })
  return `# Settings

Settings come from the environment and from \`.env\`. \`plinth settings\` prints them with their current values. An invalid
value stops the start with exit code 2; the message names every invalid setting and what it expects. An unknown \`PLINTH_…\`
name is reported with the most similar setting.

| Setting | Default | Default in production | Meaning |
|---|---|---|---|
${rows.join('\n')}
`
}

it('docs/settings.md lists every setting with its default (UPDATE=1 writes it)', () => {
  if (process.env.UPDATE === '1') writeFileSync(path, document())
  assert.equal(readFileSync(path, 'utf8'), document())
})
