import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { blocksOf, pageOf } from '../support/pages.ts'

const project = fileURLToPath(new URL('../..', import.meta.url))

it('the tests in docs/testing-your-service.md pass with the invoicing example', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-documented-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  cpSync(join(project, 'examples', 'invoicing'), folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(project, join(folder, 'node_modules', 'plinth'))
  const programs = blocksOf(pageOf('testing-your-service.md')).filter(({ info }) => info === 'ts')
  for (const [at, program] of programs.entries()) writeFileSync(join(folder, `${at}.test.ts`), program.text)
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const child = spawn(process.execPath, ['--test', '--test-isolation=none'], { cwd: folder, env })
  const [printed] = await Promise.all([text(child.stdout), once(child, 'close')])
  assert.equal(child.exitCode, 0, printed)
  assert.match(printed, /pass 3\n/)
})
