import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { ended, killAll, plinth, project } from './support.ts'

const root = mkdtempSync(join(tmpdir(), 'plinth-init-'))
after(() => {
  killAll()
  rmSync(root, { recursive: true, force: true })
})

const init = (...args: string[]) => ended(plinth(['init', ...args, '--no-install'], {}, root))
const textOf = (...names: string[]) => readFileSync(join(root, ...names), 'utf8')

describe('plinth init', () => {
  it('creates a service in a new folder and prints the next commands', async () => {
    const { code, stdout, stderr } = await init('My Service')
    assert.deepEqual([code, stderr], [0, ''])
    const expected = ['.dockerignore', '.env', '.gitignore', 'Dockerfile', 'package.json', 'service.test.ts']
    assert.deepEqual(readdirSync(join(root, 'My Service')).toSorted(), [...expected, 'service.ts', 'tsconfig.json'])
    const { name, scripts, dependencies } = JSON.parse(textOf('My Service', 'package.json'))
    assert.deepEqual([name, scripts.dev], ['my-service', 'plinth serve --watch'])
    assert.equal(join(root, 'My Service', dependencies.plinth.replace('file:', '')), join(project, '.'))
    assert.match(stdout, /Next:\n\n {2}cd 'My Service'\n {2}npm install\n {2}npm test\n {2}npx plinth serve --watch\n/)
    assert.match(textOf('My Service', 'Dockerfile'), /docker build -t my-service \./)
  })

  it('generates a secret for each service, in a file that only its owner can read', async () => {
    await init('one')
    await init('two')
    const secretOf = (folder: string) => /SECRET=(.{32})\n/.exec(textOf(folder, '.env'))?.[1]
    assert.ok(secretOf('one') !== undefined && secretOf('one') !== secretOf('two'))
    assert.equal(statSync(join(root, 'one', '.env')).mode & 0o777, 0o600)
    assert.equal(statSync(join(root, 'one', 'service.ts')).mode & 0o777, 0o644)
    assert.ok(textOf('one', '.gitignore').includes('.env\n') && textOf('one', '.dockerignore').includes('.env\n'))
  })

  it('accepts an existing folder that contains only .git', async () => {
    mkdirSync(join(root, 'cloned', '.git'), { recursive: true })
    assert.equal((await init('cloned')).code, 0)
  })

  it('refuses a folder that is not empty and changes nothing in it', async () => {
    mkdirSync(join(root, 'used'))
    writeFileSync(join(root, 'used', 'package.json'), '{}')
    writeFileSync(join(root, 'used', 'server.js'), '')
    const { code, stdout, stderr } = await init('used')
    assert.deepEqual([code, stdout], [1, ''])
    assert.equal(
      stderr,
      'plinth: used is not empty: it contains package.json and 1 more; use a new or an empty folder\n',
    )
    assert.deepEqual(readdirSync(join(root, 'used')), ['package.json', 'server.js'])
  })

  it('refuses a path that is a file', async () => {
    writeFileSync(join(root, 'file'), '')
    const { code, stderr } = await init('file')
    assert.deepEqual([code, stderr], [1, 'plinth: file is a file; plinth init creates a folder, so use another name\n'])
  })

  it('explains its argument and options with --help', async () => {
    const { code, stdout } = await ended(plinth(['init', '--help']))
    assert.equal(code, 0)
    assert.match(stdout, /Usage: plinth init \[options\] <folder>/)
    assert.match(stdout, /the folder to create; an existing folder must be empty/)
  })
})
