import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import * as plinth from '../src/plinth.ts'
import { blocksOf, pageOf } from './support/pages.ts'
import { served } from './support/tutorial.ts'

const project = fileURLToPath(new URL('..', import.meta.url))
const root = mkdtempSync(join(tmpdir(), 'plinth-docs-'))
const examples = blocksOf(pageOf('resources.md')).filter(({ info }) => info === 'ts')

/** Completes an example, which may omit imports, collections of earlier examples, and the service. */
function programOf(text: string): string {
  const declared = [...text.matchAll(/^const (\w+) = collection/gm)].map(([, name]) => name as string)
  const before = ['notes', 'tags'].filter((name) => new RegExp(`\\b${name}\\b`).test(text) && !declared.includes(name))
  const context = before.map(
    (name) =>
      `const ${name} = collection({ path: '/${name}', noun: '${name}Row', body: Type.Object({ title: Title }) })`,
  )
  const end = text.includes('export default') ? '' : `export default service({ resources: [${declared}] })`
  const program = [...context, text, end].join('\n')
  if (program.includes('import ')) return program
  const used = Object.keys(plinth).filter((name) => new RegExp(`\\b${name}\\b`).test(program))
  return `import { ${used.join(', ')} } from 'plinth'\n${program}`
}

const strict = {
  compilerOptions: { noUnusedLocals: false, typeRoots: [join(project, 'node_modules', '@types')] },
  extends: join(project, 'tsconfig.json'),
  include: ['**/*.ts'],
}

/** Returns the type errors of the written files. `npm run types` checks the project files that they import. */
function typeErrors(): string[] {
  const { stdout } = spawnSync(join(project, 'node_modules', '.bin', 'tsc'), ['--singleThreaded', '-p', root], {
    cwd: root,
    encoding: 'utf8',
  })
  return stdout.split('\n').filter((line) => /^\w+\/\w+\.ts\(/.test(line))
}

const folderOf = (at: number) => `tutorial${at}`

describe('code in docs/resources.md and docs/tutorial.md', () => {
  before(() => {
    const write = (folder: string, name: string, text: string) => {
      mkdirSync(join(root, folder), { recursive: true })
      writeFileSync(join(root, folder, name), text)
    }
    mkdirSync(join(root, 'node_modules'))
    symlinkSync(project, join(root, 'node_modules', 'plinth'))
    write('.', 'package.json', '{ "type": "module" }')
    write('.', 'tsconfig.json', JSON.stringify(strict))
    write(
      'wrong',
      'wrong.ts',
      programOf((examples[0]?.text ?? '').replace("['topic', 'pinned']", "['topic', 'colour']")),
    )
    for (const [at, { text }] of examples.entries()) write('resources', `example${at}.ts`, programOf(text))
    for (const [at, state] of served.entries()) {
      for (const [name, text] of Object.entries(state)) write(folderOf(at), name, text)
    }
  })
  after(() => rmSync(root, { recursive: true, force: true }))

  it('has no type errors; a wrong field name causes one', () => {
    const errors = typeErrors()
    assert.match(errors.find((line) => line.startsWith('wrong/')) ?? '', /Type '"colour"' is not assignable/)
    assert.deepEqual(
      errors.filter((line) => !line.startsWith('wrong/')),
      [],
    )
  })

  const definitionIn = async (...path: string[]): Promise<plinth.Definition> =>
    (await import(pathToFileURL(join(root, ...path)).href)).default

  for (const [at, { heading }] of examples.entries()) {
    it(`is a valid definition: ${heading}`, async () => {
      assert.ok((await definitionIn('resources', `example${at}.ts`)).collections.length > 0)
    })
  }

  it('is a valid definition after each step of the tutorial', async () => {
    assert.ok(served.length > 5)
    for (const at of served.keys()) assert.ok((await definitionIn(folderOf(at), 'service.ts')).collections.length > 0)
  })
})
