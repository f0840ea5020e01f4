import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { after, describe, it, type TestContext } from 'node:test'
import { parseEnv } from 'node:util'
import {
  answering,
  basic,
  type Ended,
  ended,
  eventually,
  killAll,
  newPlace,
  project,
  requestToken,
  start,
  visit,
} from './support.ts'

const root = mkdtempSync(join(tmpdir(), 'plinth-package-'))
const app = join(root, 'app')
mkdirSync(app)
const { dataDir, port, env, remove } = await newPlace()
after(() => {
  killAll()
  remove()
  rmSync(root, { recursive: true, force: true })
})

/** npm must run with this test's Node.js and registry; the registry may be configured only for this process. */
const registry = process.env.npm_config_registry
const path = { PATH: [dirname(process.execPath), process.env.PATH].join(delimiter) }
const tools = { ...env, ...path, ...(registry && { npm_config_registry: registry }) }
const npm = (args: string[], cwd: string): Promise<Ended> => start('npm', args, tools, cwd).ended

const succeeded = ({ code, stdout, stderr }: Ended): string => {
  assert.equal(code, 0, stderr || stdout)
  return stdout
}

const unreachable =
  /EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED|SELF_SIGNED_CERT_IN_CHAIN/

/** The service.ts in docs/resources.md. */
const [, snippet = ''] = /Write `service\.ts`:\n\n```ts\n([\s\S]+?)```/.exec(
  readFileSync(join(project, 'docs', 'resources.md'), 'utf8'),
) as RegExpExecArray

interface Packed {
  filename: string
  size: number
  files: { path: string; mode: number }[]
}

let packing: Promise<Packed> | undefined
/** Creates the tarball once; returns npm's description of it. */
function packed(): Promise<Packed> {
  packing ??= npm(['pack', '--json', '--pack-destination', root], project).then(
    (done) => (JSON.parse(succeeded(done)) as Packed[])[0] as Packed,
  )
  return packing
}

async function installed(t: TestContext): Promise<boolean> {
  const { filename: tarball } = await packed()
  writeFileSync(join(app, 'package.json'), '{ "private": true, "type": "module" }')
  const flags = ['--prefer-offline', '--fetch-retries=1', '--no-audit', '--no-fund', '--omit=dev']
  const done = await npm(['install', join(root, tarball), ...flags], app)
  if (done.code !== 0 && unreachable.test(done.stderr)) {
    t.skip(`the registry cannot be reached: ${done.stderr.split('\n')[0]}`)
    return false
  }
  succeeded(done)
  return true
}

describe('the package that npm pack creates', () => {
  it('contains the program with its types, the documents and deploy/, and is smaller than 2.5 MB', {
    timeout: 120_000,
  }, async () => {
    const { files, size } = await packed()
    const modes = new Map(files.map(({ path, mode }) => [path, mode]))
    const expected = ['package.json', 'README.md', 'LICENSE', 'CHANGELOG.md', 'bin/import.js', 'bin/code.js']
    expected.push(
      'dist/main.js',
      'dist/plinth.js',
      'dist/plinth.d.ts',
      'bin/testing.js',
      'dist/testing/testing.js',
      'dist/testing/testing.d.ts',
      'dist/licences.txt',
      'docs/operations.md',
      'docs/licences.md',
    )
    expected.push('console/dist/index.html', 'console/dist/licences.md')
    expected.push('deploy/Dockerfile', 'deploy/compose.yaml', 'deploy/plinth.service', 'deploy/kubernetes/api.yaml')
    assert.deepEqual(
      expected.filter((path) => !modes.has(path)),
      [],
    )
    assert.equal(modes.get('bin/plinth.js'), 0o755)
    const folders = new Set([...modes.keys()].filter((path) => path.includes('/')).map((path) => path.split('/')[0]))
    assert.deepEqual([...folders].toSorted(), ['bin', 'console', 'deploy', 'dist', 'docs'])
    const sources = [...modes.keys()].filter((path) => /\.test\.|(?<!\.d)\.ts$|\.map$|\.env|\.(key|pem|db)$/.test(path))
    assert.deepEqual(sources, [])
    assert.ok(size < 2_500_000, `${size} bytes`)
  })

  it('installs into an empty folder, serves the definition in docs/resources.md, and creates a new service', {
    timeout: 600_000,
  }, async (t) => {
    if (!(await installed(t))) return
    const there = join(app, 'node_modules', 'plinth')
    assert.ok(!existsSync(join(there, 'src')) && !existsSync(join(there, 'test')), 'only what was built is in it')
    assert.ok(!existsSync(join(project, 'dist')), 'and nothing of it stays in the checkout')
    writeFileSync(join(app, 'service.ts'), snippet)
    const { version } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'))
    assert.equal(succeeded(await start('npx', ['plinth', '--version'], tools, app).ended), `${version}\n`)
    await typed()
    await served()
    await created()
  })
})

/** Asserts that the package's types check a definition's fields. */
async function typed(): Promise<void> {
  writeFileSync(join(app, 'wrong.ts'), snippet.replace("['topic', 'pinned']", "['topic', 'colour']"))
  const flags = [
    '--singleThreaded',
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--types',
    '',
  ]
  const tsc = join(project, 'node_modules', '.bin', 'tsc')
  const { code, stdout } = await start(tsc, [...flags, 'service.ts', 'wrong.ts'], tools, app).ended
  assert.notEqual(code, 0)
  assert.doesNotMatch(stdout, /^(?!wrong\.ts\().*error TS/m)
  assert.match(stdout, /wrong\.ts\(\d+,\d+\): error TS2322: Type '"colour"' is not assignable/)
}

/** Creates a service with `plinth init`, installs its dependencies, runs its tests, checks its types, and serves it. */
async function created(): Promise<void> {
  const { filename: tarball } = await packed()
  succeeded(await start('npx', ['plinth', 'init', 'my-service', '--no-install'], tools, app).ended)
  const folder = join(app, 'my-service')
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  assert.deepEqual(dependencies, { plinth: `file:${tarball}` })
  assert.deepEqual(readFileSync(join(folder, tarball)), readFileSync(join(root, tarball)))
  // Move the installed packages, so that npm does not download them again.
  renameSync(join(app, 'node_modules'), join(folder, 'node_modules'))
  succeeded(await npm(['install', '--prefer-offline', '--no-audit', '--no-fund', '--omit=dev'], folder))
  assert.match(succeeded(await npm(['test'], folder)), /pass 2/)
  const tsc = join(project, 'node_modules', '.bin', 'tsc')
  const types = ['--singleThreaded', '--typeRoots', join(project, 'node_modules', '@types')]
  assert.equal(succeeded(await start(tsc, types, tools, folder).ended), '')
  await watched(folder)
}

/** Serves a created service with `plinth serve --watch`, and sends a first request with the client in its .env. */
async function watched(folder: string): Promise<void> {
  const env = { ...tools, PLINTH_DATA_DIR: join(folder, 'data') }
  const service = start('npx', ['plinth', 'serve', '--watch'], env, folder)
  const base = `http://localhost:${port}`
  await eventually('the service answers', () => visit(dataDir, `${base}/livez`).catch(() => false as const))
  const { PLINTH_BOOTSTRAP_CLIENT_ID: id = '', PLINTH_BOOTSTRAP_CLIENT_SECRET: secret = '' } = parseEnv(
    readFileSync(join(folder, '.env'), 'utf8'),
  )
  const form = { authorization: basic(id, secret), 'content-type': 'application/x-www-form-urlencoded' }
  const granted = await visit(dataDir, `${base}/oauth/token`, {
    ...{ method: 'POST', headers: form, body: 'grant_type=client_credentials' },
  })
  const headers = { authorization: `Bearer ${granted.json().access_token}`, 'content-type': 'application/json' }
  const created = await visit(dataDir, `${base}/v2/notes`, { method: 'POST', headers, body: '{"title":"Milk"}' })
  assert.equal(created.status, 201, created.text)
  service.child.kill('SIGTERM')
  await ended(service)
}

async function served(): Promise<void> {
  const own = { PLINTH_BOOTSTRAP_CLIENT_ID: 'own', PLINTH_BOOTSTRAP_CLIENT_SECRET: 'own secret' }
  const service = start('npx', ['plinth', 'serve', './service.ts'], { ...tools, ...own }, app)
  await answering(service, dataDir, port)
  const base = `https://localhost:${port}`
  const token = (await requestToken(dataDir, port, 'own', 'own secret')).json().access_token
  const send = async (method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) }
    return visit(dataDir, base + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  }
  const created = await send('POST', '/notes', { title: 'Buy milk', topic: 'home', text: 'two\nbottles', pinned: true })
  assert.deepEqual([created.status, created.headers.location], [201, '/notes/1'], created.text)
  assert.equal((await send('POST', '/notes', { title: '' })).status, 422)
  await send('POST', '/notes', { title: 'Other' })
  const listed = (await send('GET', '/notes?q=BOTTLES&topic=Home&pinned=true')).json()
  assert.deepEqual(listed, [created.json()])
  const patched = await send('PATCH', '/notes/1', { pinned: null, topic: 'shop' })
  assert.deepEqual([patched.status, patched.json().topic, patched.json().pinned], [200, 'shop', undefined])
  const task = await send('POST', '/api/reports', { reportType: 'notes', format: 'json' })
  assert.equal(task.status, 202, task.text)
  const { resultUrl } = await eventually('the report is completed', async () => {
    const found = (await send('GET', String(task.headers.location))).json()
    return found.status === 'completed' && found
  })
  const rows = (await send('GET', resultUrl)).json()
  assert.deepEqual([rows.length, rows[0].topic, rows[1].title], [2, 'shop', 'Other'])
  assert.ok((await send('GET', '/openapi.json')).json().paths['/notes/{id}'].patch)
  // npx does not forward the signal; the service stops because its parent process, npx, exits.
  service.child.kill('SIGTERM')
  await ended(service)
}
