import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { freePort } from '../../src/start.ts'
import { type Block, patternOf } from '../support/pages.ts'
import { filesAfterEach, tutorial } from '../support/tutorial.ts'
import { project } from './support.ts'

const root = mkdtempSync(join(tmpdir(), 'plinth-tutorial-'))
const app = join(root, 'invoicing')
const separator = '\u001e'
const files = filesAfterEach()

/** Bash functions: the commands' `npx`, without npm's own startup; and what the page does in other terminals. */
const prelude = `
exec 2>&1
npx() { shift; ${JSON.stringify(process.execPath)} ${JSON.stringify(join(project, 'bin', 'plinth.js'))} "$@"; }
until_true() { for _ in $(seq 400); do eval "$1" && return; sleep 0.05; done; echo "never: $1"; cat serve.log; exit 1; }
stop() { [ -z "$service" ] || { kill $service; wait $service || true; }; service=; }
serve() {
  stop
  ${JSON.stringify(process.execPath)} ${JSON.stringify(join(project, 'bin', 'plinth.js'))} serve > serve.log 2>&1 &
  service=$!
  until_true 'curl -sf $BASE/readyz > ready.json || ! kill -0 $service'
  curl -sf $BASE/readyz > ready.json
}
listen() {
  ${JSON.stringify(process.execPath)} ${JSON.stringify(join(project, 'bin', 'plinth.js'))} "$@" > heard.txt 2>&1 &
  listener=$!
  until_true 'grep -q Listening heard.txt'
}
trap 'kill $listener $service 2> kill.log; wait' EXIT
`

/** Returns the bash commands that do what a block of the page says. */
function scriptOf({ info, text }: Block, at: number): string {
  if (info.startsWith('ts ')) return `cp ../${at}/*.ts .`
  if (info === 'sh serve') return 'serve'
  if (info === 'sh stop') return `stop\n${text}`
  if (info === 'sh listen') return `listen ${text.trim().replace('npx plinth ', '')}`
  if (info === 'text heard') return "until_true '[ $(wc -l < heard.txt) -ge 2 ]'\ncat heard.txt"
  return info === 'sh' ? text : ':'
}

const unavailable = spawnSync('curl', ['--version']).status === 0 ? false : 'curl is not here'

describe('docs/tutorial.md', { skip: unavailable }, () => {
  let outputs: string[] = []
  before(async () => {
    mkdirSync(join(app, 'node_modules'), { recursive: true })
    symlinkSync(project, join(app, 'node_modules', 'plinth'))
    writeFileSync(join(app, 'package.json'), '{ "private": true, "type": "module" }')
    for (const [at, state] of files.entries()) {
      mkdirSync(join(root, String(at)))
      for (const [name, text] of Object.entries(state)) writeFileSync(join(root, String(at), name), text)
    }
    const port = await freePort()
    const { PATH = '', HOME = root } = process.env
    const settings = { PLINTH_PORT: String(port), PLINTH_HTTP_PORT: '0', PLINTH_DRAIN: '0' }
    const env = { PATH, HOME, BASE: `http://localhost:${port}`, ...settings }
    const script = tutorial.map((block, at) => `${scriptOf(block, at)}\nprintf '${separator}'\n`).join('')
    // Blocking this process does not delay the service, which is a separate process.
    const run = spawnSync('bash', ['-c', prelude + script], { cwd: app, env, encoding: 'utf8', timeout: 120_000 })
    assert.equal(run.status, 0, run.stdout.slice(-2_000))
    outputs = run.stdout.replaceAll('\r', '').split(separator)
  })
  after(() => rmSync(root, { recursive: true, force: true }))

  it('ends with examples/invoicing/data.ts', () => {
    assert.equal(files.at(-1)?.['data.ts'], readFileSync(join(project, 'examples', 'invoicing', 'data.ts'), 'utf8'))
  })

  for (const [at, { heading, info, text }] of tutorial.entries()) {
    if (!info.startsWith('text')) continue
    it(`${heading}: ${tutorial[at - 1]?.text.split('\n', 1)[0]}`, () => {
      const printed = info === 'text heard' ? outputs[at] : outputs[at - 1]
      assert.match(`${printed?.trimEnd()}\n`, patternOf(text))
    })
  }
})
