import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { freePort } from '../../src/serving/listeners.ts'
import { ended, eventually, killAll, plinth, project, type Running } from './support.ts'

const folder = mkdtempSync(join(tmpdir(), 'plinth-watch-'))
const write = (name: string, content: string) => writeFileSync(join(folder, name), content)

const dataFile = (path: string) => `import { collection, Title, Type } from 'plinth'

export const notes = collection({
  path: '/${path}',
  noun: 'note',
  publicRead: true,
  operations: ['list'],
  body: Type.Object({ title: Title }),
})
`
const serviceFile = `import { service } from 'plinth'
import { notes } from './data.ts'

export default service({ resources: [notes] })
`

describe('plinth serve --watch', () => {
  let port: number
  let running: Running
  let printed = ''
  const watching = (env: Record<string, string> = {}) =>
    plinth(
      ['serve', '--watch'],
      { PLINTH_TLS: 'off', PLINTH_PORT: String(port), PLINTH_LOG_LEVEL: 'warn', ...env },
      folder,
    )
  // Each request uses a new connection: an exiting process may close a kept-alive one while a request is on its way.
  const statusOf = (path: string) =>
    fetch(`http://localhost:${port}${path}`, { headers: { connection: 'close' } }).then(({ status }) => status)
  const prints = (pattern: RegExp) => eventually(`${pattern} (printed: ${printed})`, async () => pattern.test(printed))

  before(async () => {
    mkdirSync(join(folder, 'node_modules'))
    symlinkSync(project, join(folder, 'node_modules', 'plinth'))
    write('package.json', '{ "type": "module" }')
    write('data.ts', dataFile('notes'))
    write('service.ts', serviceFile)
    port = await freePort()
    running = watching()
    running.child.stderr?.on('data', (chunk) => (printed += chunk))
    await eventually('the service answers', () => statusOf('/v2/notes').catch(() => false as const))
  })
  after(() => {
    killAll()
    rmSync(folder, { recursive: true, force: true })
  })

  it('serves the first definition', async () => {
    assert.equal(await statusOf('/v2/notes'), 200)
  })

  it('prints the file and line of an error, and still serves the earlier definition', async () => {
    write('data.ts', dataFile('memos').replace('body:', 'body = '))
    await prints(/the earlier definition is still served/)
    assert.match(printed, /service\.ts cannot be loaded: file:\/\/\S+\/data\.ts:8\n/)
    assert.equal(await statusOf('/v2/notes'), 200)
  })

  it('finishes a partially received request, and keeps the port open until the changed definition is served', async () => {
    const slow = connect(port, '127.0.0.1')
    await once(slow, 'connect')
    slow.write('GET /v2/notes HTTP/1.1\r\nHost: localhost\r\n')
    assert.equal(await statusOf('/v2/notes'), 200)
    write('data.ts', dataFile('memos'))
    const waiting = eventually('the new definition answers', async () => (await statusOf('/v2/memos')) === 200)
    slow.write('Connection: close\r\n\r\n')
    assert.match(await text(slow), /^HTTP\/1\.1 200 OK\r\n/)
    // None of these requests was refused: `fetch` would have rejected.
    await waiting
    assert.equal(await statusOf('/v2/notes'), 404)
    await prints(/restarted in \d+ ms after a change of data\.ts/)
  })

  it('applies the new definition and .env once a missing import exists; warns about a module-level variable', async () => {
    write('service.ts', serviceFile.replace('./data.ts', './other.ts'))
    await prints(/Cannot find module '\S+\/other\.ts'/)
    write('other.ts', `${dataFile('others')}\nexport let counter = 0\n`)
    write('.env', 'PLINTH_PUBLIC_READ=false\n')
    await eventually('the new definition answers', async () => (await statusOf('/v2/others')) === 401)
    await prints(/plinth: other\.ts:\d+: `counter` has its own value in each serving thread and node/)
  })

  it('exits with code 0 on SIGTERM, and leaves no listening process', async () => {
    running.child.kill('SIGTERM')
    assert.equal((await ended(running)).code, 0)
    await assert.rejects(statusOf('/livez'))
  })

  it('exits with code 1 if the port is in use', async () => {
    const server = createServer().listen(port, '127.0.0.1')
    await once(server, 'listening')
    const { code, stderr } = await ended(watching())
    server.close()
    assert.equal(code, 1)
    assert.match(stderr, /Cannot listen on 127\.0\.0\.1 port \d+: another program is using it/)
  })
})
