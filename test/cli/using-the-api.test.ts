import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { blocksOf, pageOf, patternOf } from '../support/pages.ts'
import { answering, ended, killAll, newPlace, plinth } from './support.ts'

const blocks = blocksOf(pageOf('using-the-api.md'))
const [setup, ...others] = blocks
const commands = others.filter(({ info }) => info === 'sh')

const separator = '\u001e'

/** Returns why the commands cannot run on this machine, or false; `%header{…}` requires curl 7.84. */
function missing(): string | false {
  const [, major = 0, minor = 0] =
    /^curl (\d+)\.(\d+)/.exec(spawnSync('curl', ['--version']).stdout?.toString() ?? '')?.map(Number) ?? []
  return major * 1_000 + minor >= 7_084 ? false : 'curl 7.84 or newer is not here'
}

describe('docs/using-the-api.md', { skip: missing() }, () => {
  let place: Awaited<ReturnType<typeof newPlace>>
  let outputs: string[] = []
  before(async () => {
    place = await newPlace()
    const { dataDir, port, env } = place
    const [CLIENT_ID, CLIENT_SECRET] = ['newcomer', 'what the first start has printed']
    const bootstrap = { PLINTH_BOOTSTRAP_CLIENT_ID: CLIENT_ID, PLINTH_BOOTSTRAP_CLIENT_SECRET: CLIENT_SECRET }
    const service = plinth(['serve'], { ...env, ...bootstrap })
    await answering(service, dataDir, port)
    const script = commands.map(({ text }) => `${text}\nprintf '${separator}'\n`).join('')
    const CA = join(dataDir, 'certificates', 'authority.crt')
    const variables = { BASE: `https://localhost:${port}`, CA, CLIENT_ID, CLIENT_SECRET }
    // Blocking this process does not delay the service, which is a separate process.
    const run = spawnSync('bash', ['-c', script], { env: { ...process.env, ...variables }, encoding: 'utf8' })
    assert.deepEqual([run.status, run.stderr], [0, ''])
    outputs = run.stdout.replaceAll('\r', '').split(separator)
    service.child.kill('SIGTERM')
    await ended(service)
  })
  after(() => {
    killAll()
    place.remove()
  })

  it('defines exactly the environment variables BASE, CA, CLIENT_ID and CLIENT_SECRET', () => {
    assert.equal(setup?.info, 'sh setup')
    const names = [...(setup?.text ?? '').matchAll(/(\w+)=/g)].map(([, name]) => name)
    assert.deepEqual(names, ['BASE', 'CA', 'CLIENT_ID', 'CLIENT_SECRET'])
  })

  it('shows an output after every command', () => {
    assert.ok(commands.length > 20)
    assert.deepEqual(
      others.map(({ info }) => info),
      commands.flatMap(() => ['sh', 'text']),
    )
  })

  for (const [at, { heading, text }] of commands.entries()) {
    it(`${heading}: ${text.split('\n', 1)[0]}`, () => {
      const shown = others[2 * at + 1]?.text ?? ''
      assert.match(`${outputs[at]?.trimEnd()}\n`, patternOf(shown))
    })
  }
})
