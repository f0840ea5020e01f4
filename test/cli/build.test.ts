import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, beforeEach, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { project } from './support.ts'

const root = mkdtempSync(join(tmpdir(), 'plinth-build-'))
after(() => rmSync(root, { recursive: true, force: true }))

const write = (path: string, text: string) => {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  writeFileSync(join(root, path), text)
}

/** Runs JavaScript in a separate process, with the temporary checkout's bin/code.js as `code`; returns the output. */
const run = (script: string) => {
  const text = `const code = await import(${JSON.stringify(pathToFileURL(join(root, 'bin/code.js')).href)})\n${script}`
  return execFileSync(process.execPath, ['--input-type=module', '--eval', text], { encoding: 'utf8' })
}

const load = () => run(`process.stdout.write((await code.loadProgram('main')).default)`)
/** Writes a build of the current sources. */
const build = () => {
  write('build/main.js', `export default 'build'`)
  write('build/sources.txt', run('process.stdout.write(code.stateOfSources())'))
}

describe('bin/plinth.js', () => {
  beforeEach(() => {
    rmSync(root, { recursive: true, force: true })
    cpSync(join(project, 'bin'), join(root, 'bin'), { recursive: true })
    write('package.json', '{ "type": "module" }')
    write('node_modules/.package-lock.json', '{}')
    write('src/main.ts', `export default 'sources'`)
    write('src/other/part.ts', '')
  })

  it('runs the sources of a checkout without a build', () => {
    assert.equal(load(), 'sources')
  })

  it('runs a build that was made from exactly these sources', () => {
    build()
    assert.equal(load(), 'build')
  })

  it('runs the sources if one was edited, added or removed after the build, or a package was installed', () => {
    const changes = [
      () => write('src/other/part.ts', 'export {}'),
      () => write('src/other/new.ts', ''),
      () => rmSync(join(root, 'src/other/part.ts')),
      () => write('node_modules/.package-lock.json', '{ "packages": {} }'),
    ]
    for (const change of changes) {
      build()
      assert.equal(load(), 'build')
      change()
      assert.equal(load(), 'sources', String(change))
    }
  })

  it('uses the sources in a process that only loads modules, such as a test', () => {
    build()
    assert.equal(run(`process.stdout.write((await code.load('main')).default)`), 'sources')
  })

  it('runs the sources if a build was interrupted', () => {
    build()
    rmSync(join(root, 'build/sources.txt'))
    assert.equal(load(), 'sources')
  })

  it('runs the build in an installed package, which has no sources', () => {
    write('dist/main.js', `export default 'package'`)
    rmSync(join(root, 'src'), { recursive: true })
    assert.equal(load(), 'package')
  })

  it('runs the same code in every thread of a process, even after an edit', () => {
    build()
    const thread = `import { parentPort } from 'node:worker_threads'
      const { load } = await import('${pathToFileURL(join(root, 'bin/code.js')).href}')
      parentPort.postMessage((await load('main')).default)`
    const output = run(`import { writeFileSync } from 'node:fs'
      import { once } from 'node:events'
      import { Worker } from 'node:worker_threads'
      await code.loadProgram('main')
      writeFileSync(${JSON.stringify(join(root, 'src/main.ts'))}, 'export default "edited"')
      const worker = new Worker(new URL('data:text/javascript,' + encodeURIComponent(${JSON.stringify(thread)})))
      process.stdout.write((await once(worker, 'message'))[0])`)
    assert.equal(output, 'build')
    assert.equal(load(), 'edited')
  })
})
