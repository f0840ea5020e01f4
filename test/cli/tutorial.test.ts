import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { parseEnv } from 'node:util'
import { loadDefinition } from '../../src/cli/load-definition.ts'
import { readConfig } from '../../src/config/config.ts'
import type { Service } from '../../src/lifecycle.ts'
import { freePort } from '../../src/serving/listeners.ts'
import { startService } from '../../src/start.ts'
import { type Block, patternOf } from '../support/pages.ts'
import { filesAfterEach, tutorial } from '../support/tutorial.ts'
import { project } from './support.ts'

const root = mkdtempSync(join(tmpdir(), 'plinth-tutorial-'))
const app = join(root, 'invoicing')
const separator = '\u001e'
const files = filesAfterEach()

/** Bash functions that replace `npx` (to save npm's startup time) and the commands in the page's other terminals. */
const prelude = `
exec 2>&1
plinth=(${JSON.stringify(process.execPath)} ${JSON.stringify(join(project, 'bin', 'plinth.js'))})
npx() { shift; "\${plinth[@]}" "$@"; }
service() { curl -sf -X POST $CONTROL/$1; }
listen() {
  "\${plinth[@]}" "$@" > heard.txt 2>&1 &
  listener=$!
  trap 'kill $listener; wait' EXIT
  until grep -q Listening heard.txt; do kill -0 $listener || exit 1; sleep 0.1; done
}
heard() {
  for _ in $(seq 200); do [ $(wc -l < heard.txt) -lt $1 ] || break; sleep 0.1; done
  cat heard.txt
}
`

/** Returns the bash commands that are equivalent to a code block of the page. */
function scriptOf({ info, text }: Block, at: number): string {
  if (info.startsWith('ts ')) return `cp ../step${at}/*.ts .`
  if (info === 'sh serve') return `service step${at}`
  if (info === 'sh stop') return `service stop\n${text}`
  if (info === 'sh listen') return `listen ${text.trim().replace('npx plinth ', '')}`
  if (info === 'text heard') return `heard ${text.trimEnd().split('\n').length}`
  return info === 'sh' ? text : ':'
}

const unavailable = spawnSync('curl', ['--version']).status === 0 ? false : 'curl is not here'

describe('docs/tutorial.md', { skip: unavailable }, () => {
  let service: Service | undefined
  let settings: Record<string, string>
  let outputs: string[] = []

  /** On request, serves a step's definition in this process, or stops the running service. */
  const control = createServer(async ({ url = '' }, response) => {
    try {
      await service?.close()
      service = undefined
      if (url !== '/stop') {
        const environment = { ...parseEnv(readFileSync(join(app, '.env'), 'utf8')), ...settings }
        const config = readConfig({ ...environment, PLINTH_LOG_LEVEL: 'silent' })
        service = await startService(config, await loadDefinition(join(root, url, 'service.ts')), 'test')
      }
      response.end()
    } catch (error) {
      response.writeHead(500).end()
      throw error
    }
  })

  before(async () => {
    for (const folder of [app, join(root, 'node_modules')]) mkdirSync(folder)
    symlinkSync(project, join(root, 'node_modules', 'plinth'))
    for (const folder of [app, root]) writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
    for (const [at, state] of files.entries()) {
      mkdirSync(join(root, `step${at}`))
      for (const [name, text] of Object.entries(state)) writeFileSync(join(root, `step${at}`, name), text)
    }
    await once(control.listen(0, '127.0.0.1'), 'listening')
    const port = await freePort()
    const { PATH = '', HOME = root } = process.env
    settings = {
      PLINTH_PORT: String(port),
      PLINTH_HTTP_PORT: '0',
      PLINTH_DRAIN: '0',
      PLINTH_DATA_DIR: join(app, 'data'),
    }
    const CONTROL = `http://127.0.0.1:${(control.address() as AddressInfo).port}`
    const env = { PATH, HOME, BASE: `http://localhost:${port}`, CONTROL, ...settings }
    const script = tutorial.map((block, at) => `${scriptOf(block, at)}\nprintf '${separator}'\n`).join('')
    const bash = spawn('bash', ['-c', prelude + script], { cwd: app, env, stdio: ['ignore', 'pipe', 'inherit'] })
    outputs = (await textOf(bash.stdout)).replaceAll('\r', '').split(separator)
  })
  after(async () => {
    await service?.close()
    control.close()
    rmSync(root, { recursive: true, force: true })
  })

  it('ends with a data.ts that is identical to examples/invoicing/data.ts', () => {
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
