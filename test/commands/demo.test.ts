import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { basename, join, resolve } from 'node:path'
import { after, describe, it } from 'node:test'
import { ended, eventually, killAll, newPlace, occupied, plinth, serving, visit } from './support.ts'

const place = await newPlace()
const { dataDir, port, env } = place
after(() => {
  killAll()
  place.remove()
})

const controls = /[^\P{Cc}\n]/u
const reports = () => readdirSync(join(dataDir, 'demo')).sort()
const lines = (file: string) =>
  readFileSync(join(dataDir, 'demo', file), 'utf8')
    .split('\r\n')
    .slice(0, -1)

/** Nothing listens and nobody has a client any more: what the demo started, it ended. */
async function assertNothingLingers(clients: number): Promise<void> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => server.on('error', reject).listen(port, '127.0.0.1', resolve))
  await new Promise((resolve) => server.close(resolve))
  const { stdout } = await ended(plinth(['clients', 'list', '--json'], env))
  const listed = JSON.parse(stdout) as { name: string; revokedAt: string | null }[]
  const demos = listed.filter(({ name }) => name === 'Demo')
  assert.equal(demos.length, clients)
  assert.ok(demos.every(({ revokedAt }) => revokedAt !== null))
}

/** What the finished demo printed, step by step. */
function assertShown(stdout: string, service: 'started' | 'is running', catalogue: RegExp): string {
  assert.doesNotMatch(stdout, controls)
  // Paths are shown the way a person in that folder types them.
  const [url, folder] = [`https://localhost:${port}`, basename(dataDir)]
  const expected = [
    new RegExp(`^ {2}ok {2}Service {4}${service} at ${url}, data folder: ${folder}$`, 'm'),
    /^ {2}ok {2}Token {6}for the new client cli_[\w-]{22}, good for 15 minutes$/m,
    new RegExp(`^ {2}ok {2}Catalogue {2}${catalogue.source}$`, 'm'),
    /^ {2}ok {2}Report {5}tsk_[\w-]{22} completed, 2,000 rows$/m,
    /^ {2}ok {2}Webhook {4}report\.completed received at http:\/\/127\.0\.0\.1:\d+, signature verified$/m,
    /^ {2}ok {2}Download {3}[\d,]+ bytes, as Repr-Digest says$/m,
    /^ {4}id,name,price,createdAt,updatedAt$/m,
    /^ {4}curl --cacert \S+authority\.crt 'https:\/\/localhost:\d+\/products\?sort=-price&limit=3'$/m,
  ]
  for (const line of expected) assert.match(stdout, line)
  const [, file] = /The file is (\S+)/.exec(stdout) ?? []
  assert.equal(statSync(resolve(dataDir, '..', file as string)).mode & 0o777, 0o600)
  return basename(file as string)
}

describe('plinth demo', () => {
  it('Ctrl-C stops it cleanly with exit code 130', async () => {
    const running = plinth(['demo'], env)
    await eventually('the token is shown', async () => running.stdout().includes('Token'))
    running.child.kill('SIGINT')
    const { code, stdout, stderr } = await ended(running)
    assert.deepEqual([code, stderr], [130, ''])
    assert.match(stdout, /^ {2}Stopped$/m)
    assert.doesNotMatch(stdout, /Download/)
    await assertNothingLingers(1)
  })

  it('goes on where the last run stopped, shows every step, saves the report and leaves nothing running', async (t) => {
    const other = await occupied()
    t.after(() => other.server.close())
    const { code, stdout, stderr } = await ended(plinth(['demo'], { ...env, PLINTH_HTTP_PORT: String(other.port) }))
    assert.deepEqual([code, stderr], [0, ''])
    const file = assertShown(stdout, 'started', /[\d,]+ products, books and users added/)
    assert.match(stdout, /^ {4}npm start$/m)
    const [header, ...rows] = lines(file)
    assert.equal(header, 'id,name,price,createdAt,updatedAt')
    assert.equal(rows.length, 2_000)
    assert.equal(new Set(rows.map((row) => row.split(',')[0])).size, 2_000)
    assert.deepEqual(reports(), [file])
    await assertNothingLingers(2)
  })

  it('uses the service that runs already, doubles nothing and leaves the service alone', async () => {
    const service = await serving(dataDir, port, env)
    const { code, stdout, stderr } = await ended(plinth(['demo'], env))
    assert.deepEqual([code, stderr], [0, ''])
    const file = assertShown(stdout, 'is running', /3,000 products, books and users are there/)
    assert.doesNotMatch(stdout, /npm start/)
    assert.equal(lines(file).length, 2_001)
    assert.equal(reports().length, 2)
    for (const [path, newestId] of [
      ['products', 2_000],
      ['books', 500],
    ]) {
      const list = await visit(dataDir, `https://localhost:${port}/${path}?sort=-id&limit=1`)
      assert.equal(JSON.parse(list.text)[0].id, newestId)
    }
    service.child.kill('SIGTERM')
    assert.equal((await ended(service)).code, 0)
    await assertNothingLingers(3)
  })

  it('refuses a port that something else has, and says how to choose another', async (t) => {
    const other = await occupied(port)
    t.after(() => other.server.close())
    const { code, stdout, stderr } = await ended(plinth(['demo'], env))
    assert.equal(code, 1)
    assert.match(stdout, /^ {2}failed {2}Service$/m)
    assert.match(stderr, new RegExp(`^plinth: Port ${port} of 127.0.0.1 is in use, but not by Plinth .*HTTPS\\.$`, 'm'))
    assert.match(stderr, /PLINTH_PORT=9443 npm run demo/)
  })

  it('refuses to run where it could not work, says why, and touches nothing', async () => {
    const refusals: [Record<string, string>, RegExp][] = [
      [{ PLINTH_PROFILE: 'production' }, /not run with PLINTH_PROFILE=production: .* calls no webhook/],
      [{ PLINTH_TLS: 'off' }, /PLINTH_TLS=off/],
      [{ PLINTH_WEBHOOK_ALLOW_HTTP: 'false' }, /Unset PLINTH_WEBHOOK_ALLOW_HTTP .*https/],
      [{ PLINTH_WEBHOOK_ALLOW_CIDRS: '10.0.0.0/8' }, /Unset .*private or reserved/],
    ]
    const before = readdirSync(dataDir)
    const ends = await Promise.all(refusals.map(([settings]) => ended(plinth(['demo'], { ...env, ...settings }))))
    for (const [at, { code, stdout, stderr }] of ends.entries()) {
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr, refusals[at]?.[1] as RegExp)
    }
    assert.deepEqual(readdirSync(dataDir), before)
  })
})
