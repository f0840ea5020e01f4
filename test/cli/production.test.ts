import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import {
  answering,
  cleanEnvironment,
  ended,
  killAll,
  newPlace,
  plinth,
  project,
  type Running,
  requestToken,
  visit,
} from './support.ts'

const page = readFileSync(join(project, 'docs', 'operations.md'), 'utf8')
const section = /^## Production from nothing\n(.*?)^## /ms.exec(page)?.[1] ?? ''
/** The `npx plinth` commands in the section, without that prefix. */
const commands = [...section.matchAll(/^npx plinth (.+)$/gm)].map(([, words]) => words as string)

describe('the production setup in docs/operations.md', () => {
  let place: Awaited<ReturnType<typeof newPlace>>
  let service: Running
  const outputs: string[] = []
  before(async () => {
    place = await newPlace()
    const base = { PLINTH_PROFILE: 'production', PLINTH_BASE_URL: `https://localhost:${place.port}` }
    const env = { ...place.env, ...base, PLINTH_HOST: '127.0.0.1' }
    for (const words of commands) {
      const run = spawnSync('sh', ['-c', `"${process.execPath}" bin/plinth.js ${words}`], {
        ...{ cwd: project, env: cleanEnvironment(env), encoding: 'utf8' },
        input: 'violet stapler orbit kettle 42',
      })
      assert.deepEqual([run.status, run.stderr], [0, ''], words)
      outputs.push(run.stdout)
    }
    service = plinth(['serve'], env)
    await answering(service, place.dataDir, place.port)
  })
  after(async () => {
    service?.child.kill('SIGTERM')
    if (service) await ended(service)
    killAll()
    place.remove()
  })
  const get = (path: string) => visit(place.dataDir, `https://localhost:${place.port}${path}`)

  it('lists the settings and creates the tables, the first administrator and the first client', () => {
    assert.deepEqual(
      commands.map((words) => words.split(' ').slice(0, 2).join(' ')),
      ['settings', 'migrate', 'users set-password', 'clients create'],
    )
    const [, migrated, administrator, client] = outputs
    assert.match(String(migrated), /^Ran 0001-resources, /)
    assert.equal(administrator, 'ada@example.com can log in now, as admin\n')
    assert.match(String(client), /^client_id {6}cli_\S+\nclient_secret {2}\S+\n$/)
  })

  it('200 from /readyz, and a token for the client', async () => {
    assert.equal((await get('/readyz')).status, 200)
    const [, id = '', secret = ''] = /^client_id +(\S+)\nclient_secret +(\S+)/.exec(outputs[3] ?? '') ?? []
    const response = await requestToken(place.dataDir, place.port, id, secret)
    assert.deepEqual([response.status, response.json().scope], [200, 'products:write reports:read reports:write'])
  })

  it('does not register an OAuth client for /docs; the page explains how to', async () => {
    const { text } = await get('/docs/start.js')
    assert.match(text, /"clientId": null/)
    assert.match(text, /plinth clients create/)
    const authorize = '/oauth/authorize?response_type=code&client_id=docs&scope=openid&redirect_uri='
    assert.equal((await get(authorize + encodeURIComponent(`https://localhost:${place.port}/docs`))).status, 400)
  })
})
