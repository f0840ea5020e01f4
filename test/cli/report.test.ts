import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { basic, commandRunner, ended, killAll, newPlace, plinth, type Running, serving, visit } from './support.ts'

describe('plinth report', () => {
  let place: Awaited<ReturnType<typeof newPlace>>
  let service: Running
  let commands: ReturnType<typeof commandRunner>
  const client = { PLINTH_CLIENT_ID: 'boot', PLINTH_CLIENT_SECRET: 'boot: secret' }

  before(async () => {
    place = await newPlace()
    const bootstrap = { PLINTH_BOOTSTRAP_CLIENT_ID: 'boot', PLINTH_BOOTSTRAP_CLIENT_SECRET: 'boot: secret' }
    service = await serving(place.dataDir, place.port, { ...place.env, ...bootstrap })
    commands = commandRunner(place.env)
  })
  after(async () => {
    commands.close()
    service.child.kill('SIGTERM')
    await ended(service)
    killAll()
    place.remove()
  })

  const run = (...args: string[]) => commands.run(['report', ...args], '', client)
  const api = async (method: string, path: string, body?: object) => {
    const base = `https://localhost:${place.port}`
    const form = { authorization: basic('boot', 'boot: secret'), 'content-type': 'application/x-www-form-urlencoded' }
    const tokenRequest = { method: 'POST', headers: form, body: 'grant_type=client_credentials' }
    const { access_token } = (await visit(place.dataDir, `${base}/oauth/token`, tokenRequest)).json()
    const headers = { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' }
    return visit(place.dataDir, base + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  }

  it('`run` requests and downloads a report without leaving a partial file; `list` prints the report', async () => {
    for (const [title, genre] of [
      ['One', 'Poetry'],
      ['Two', 'Drama'],
    ]) {
      assert.equal((await api('POST', '/books', { title, author: 'Ada', genre })).status, 201)
    }
    const file = join(place.dataDir, 'books.csv')
    const args = ['--fields', 'title,genre', '--sort', '-title', '--filter', 'author=ada', '--out', file]
    const command = plinth(['report', 'run', 'books', ...args], { ...place.env, ...client })
    const { code, stdout, stderr } = await ended(command)
    assert.deepEqual([code, stderr], [0, ''])
    assert.equal(readFileSync(file, 'utf8'), 'title,genre\r\nTwo,Drama\r\nOne,Poetry\r\n')
    const taskId = /tsk_[\w-]{22}/.exec(stdout)?.[0]
    assert.match(stdout, /2 rows\n.*books\.csv, 36 bytes, digest verified/)
    assert.deepEqual(
      readdirSync(place.dataDir).filter((name) => name.endsWith('.part')),
      [],
    )
    const listed = await run('list')
    assert.match(listed.stdout, new RegExp(`^${taskId}  completed 100 %\\s+\\S+  books as csv$`, 'm'))
    const [task] = JSON.parse((await run('list', '--json', '--status', 'completed')).stdout)
    const sha256 = createHash('sha256').update(readFileSync(file)).digest('base64')
    const { headers } = await api('GET', task.resultUrl)
    assert.equal(headers['repr-digest'], `sha-256=:${sha256}:`)
  })

  it('exit code 1 and the reason for invalid arguments and for errors returned by the service', async () => {
    for (const [args, message] of [
      [['run', 'weather'], /422: Some fields break a rule \(reportType must be one of: users, /],
      [['run', 'books', '--filter', 'genre'], /It must be name=value/],
      [['run', 'books', '--param', 'genre'], /It must be name=value or name:=JSON/],
      [['run', 'books', '--param', 'seats:=three'], /three is not JSON/],
      [['run', 'books', '--param', 'from=2026-01-01', 'seats:=3'], /422: .*parameters\.seats is unknown/],
      [['cancel', 'tsk_AAAAAAAAAAAAAAAAAAAAAA'], /404: There is no such task/],
      [['list', '--client-secret', 'wrong'], /returned 401/],
      [['list', '--base-url', 'https://localhost:1'], /^plinth: Cannot connect to https:\/\/localhost:1: /],
    ] as const) {
      const { code, stderr } = await run(...args)
      assert.equal(code, 1, stderr)
      assert.match(stderr, message)
    }
    const nobody = await commands.run(['report', 'list'])
    assert.deepEqual([nobody.code, /--client-id/.test(nobody.stderr)], [1, true])
  })

  it('exit code 1 and the reason for cancelling a finished report', async () => {
    const [task] = JSON.parse((await run('list', '--json')).stdout)
    const { code, stderr } = await run('cancel', task.taskId)
    assert.equal(code, 1)
    assert.match(stderr, /409: The task has already ended/)
  })
})
