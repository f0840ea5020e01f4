import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, describe, it } from 'node:test'
import { ended, eventually, killAll, occupied, plinth, visit } from './support.ts'

const folder = mkdtempSync(join(tmpdir(), 'plinth-demo-test-'))
after(() => {
  killAll()
  rmSync(folder, { recursive: true, force: true })
})

const controls = /[^\P{Cc}\n]/u
/** The demo creates its data in TMPDIR. */
const env = { TMPDIR: folder, XDG_CACHE_HOME: join(tmpdir(), 'plinth-cache') }
const baseOf = (stdout: string) => /Service {4}started at (\S+), with its own data folder$/m.exec(stdout)?.[1]

/** Asserts that the service has stopped listening and that its data has been removed. */
async function assertNothingLingers(stdout: string): Promise<void> {
  await assert.rejects(visit(folder, `${baseOf(stdout)?.replace('https:', 'http:')}/livez`), { code: 'ECONNREFUSED' })
  assert.deepEqual(readdirSync(folder), [])
}

describe('plinth demo', () => {
  beforeEach(() => assert.deepEqual(readdirSync(folder), []))

  it('runs every step in its own data folder, ignores settings in the environment, and cleans up', async (t) => {
    const other = await occupied()
    t.after(() => other.server.close())
    const set = {
      ...{ PLINTH_PORT: String(other.port), PLINTH_HTTP_PORT: String(other.port), PLINTH_TLS: 'off' },
      ...{ PLINTH_PROFILE: 'production', PLINTH_DATA_DIR: join(folder, 'kept'), PLINTH_WEBHOOK_ALLOW_HTTP: 'false' },
      ...{ DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none', PLINTH_PUBLIC_READ: 'wrong' },
    }
    const { code, stdout, stderr } = await ended(plinth(['demo'], { ...env, ...set }))
    assert.deepEqual([code, stderr], [0, ''])
    assert.doesNotMatch(stdout, controls)
    assert.match(baseOf(stdout) as string, /^https:\/\/localhost:\d+$/)
    const expected = [
      /^ {2}ok {2}Token {6}for the new client cli_[\w-]{22}, valid for 15 minutes$/m,
      /^ {2}ok {2}Catalogue {2}3,000 products, books and users added$/m,
      /^ {2}ok {2}Report {5}tsk_[\w-]{22} completed, 2,000 rows$/m,
      /^ {2}ok {2}Webhook {4}report\.completed received at http:\/\/127\.0\.0\.1:\d+, signature verified$/m,
      /^ {2}ok {2}Download {3}[\d,]+ bytes, digest verified$/m,
      /^ {4}id,name,price,createdAt,updatedAt$/m,
      /^ {4}npm start$/m,
    ]
    for (const line of expected) assert.match(stdout, line)
    await assertNothingLingers(stdout)
  })

  it('exits with code 130 after Ctrl-C, and removes its data', async () => {
    const running = plinth(['demo'], env)
    await eventually('the token is shown', async () => running.stdout().includes('Token'))
    running.child.kill('SIGINT')
    const { code, stdout, stderr } = await ended(running)
    assert.deepEqual([code, stderr], [130, ''])
    assert.match(stdout, /^ {2}Stopped$/m)
    assert.doesNotMatch(stdout, /Download/)
    await assertNothingLingers(stdout)
  })
})
