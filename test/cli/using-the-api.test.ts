import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { answering, ended, killAll, newPlace, plinth, project } from './support.ts'

const page = readFileSync(join(project, 'docs', 'using-the-api.md'), 'utf8')

interface Block {
  heading: string
  info: string
  text: string
}

/** Returns the page's fenced code blocks, each with its heading. */
function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = []
  let heading = ''
  for (const [, title, info, text] of markdown.matchAll(/^## ([^\n]+)$|^```([^\n]+)\n(.*?)^```$/gms)) {
    if (title !== undefined) heading = title
    else blocks.push({ heading, info: info as string, text: text as string })
  }
  return blocks
}

const blocks = blocksOf(page)
const [setup, ...others] = blocks
const commands = others.filter(({ info }) => info === 'sh')

/** Converts sample output on the page to a pattern: `…` matches any text or, alone on a line, any number of lines. */
function patternOf(shown: string): RegExp {
  const lines = shown.trimEnd().split('\n')
  const written = lines.map((line) => (line === '…' ? '(.*\n)*?' : `${line.split('…').map(escaped).join('.*')}\n`))
  return new RegExp(`^${written.join('')}$`)
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

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

  it('defines exactly the environment variables that its commands use', () => {
    assert.equal(setup?.info, 'sh setup')
    const names = [...(setup?.text ?? '').matchAll(/(\w+)=/g)].map(([, name]) => name)
    assert.deepEqual(names, ['BASE', 'CA', 'CLIENT_ID', 'CLIENT_SECRET'])
  })

  it('shows the output of every command', () => {
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
