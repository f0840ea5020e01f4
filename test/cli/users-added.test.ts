import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { request } from 'undici'
import { client, password, type Real, realServer } from '../oauth/real.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { cleanEnvironment, project } from './support.ts'

forEachEngine((engine) => {
  let real: Real
  let authorization: string
  before(async () => {
    real = await realServer(engine)
    const { id, secret } = await client(real, { grants: ['client_credentials'] })
    const form = { grant_type: 'client_credentials', client_id: id, client_secret: secret as string }
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    const body = new URLSearchParams(form).toString()
    const token = await call<{ access_token: string }>('POST', '/oauth/token', body, headers)
    authorization = `Bearer ${token.access_token}`
  })
  after(() => real.close())

  const call = async <T>(method: 'GET' | 'POST', path: string, body?: string, headers = {}): Promise<T> => {
    const all = { ...(authorization && { authorization }), 'content-type': 'application/json', ...headers }
    const response = await request(real.baseUrl + path, { method, headers: all, body, dispatcher: real.agent })
    return (await response.body.json()) as T
  }
  /** Runs `plinth users` while the service runs, with this standard input. */
  const users = async (args: string[], input = '') => {
    const env = cleanEnvironment({ PLINTH_DATA_DIR: real.dataDir, DATABASE_URL: real.db.url })
    const child = spawn(process.execPath, [join(project, 'bin', 'plinth.js'), 'users', ...args], { env })
    child.stdin.end(input)
    const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
    return { code, stderr }
  }

  describe('plinth users with --name', () => {
    it('publishes user.created, as POST /users does', async () => {
      const webhook = { event: 'user.created', callbackUrl: 'http://127.0.0.1:1/hook', payloadStyle: 'plain' }
      const { id } = await call<{ id: string }>('POST', '/api/webhooks', JSON.stringify(webhook))
      assert.deepEqual(await users(['invite', 'ada@example.com', '--name', ' Ada ']), { code: 0, stderr: '' })
      const second = await users(['set-password', 'grace@example.com', '--name', 'Grace'], `${password}\n`)
      assert.deepEqual(second, { code: 0, stderr: '' })
      const delivered = await eventually('both are delivered', async () => {
        const deliveries = await call<{ event: string }[]>('GET', `/api/webhooks/${id}/deliveries`)
        return deliveries.length === 2 && deliveries
      })
      assert.deepEqual(new Set(delivered.map(({ event }) => event)), new Set(['user.created']))
      const events = await real.db.read.selectFrom('events').select(['body', 'audience']).orderBy('id').execute()
      const listed = await call<{ name: string; email: string }[]>('GET', '/users')
      assert.deepEqual(
        events.map(({ body }) => JSON.parse(body)).map(({ name, email }) => ({ name, email })),
        listed.map(({ name, email }) => ({ name, email })),
      )
      assert.deepEqual(
        events.map(({ audience }) => audience),
        ['users:read', 'users:read'],
      )
    })

    it('exit code 1 for a rejected password; no user is added', async () => {
      const { code } = await users(['set-password', 'x@example.com', '--name', 'X'], 'short\n')
      assert.deepEqual([code, await call('GET', '/users?email=x@example.com')], [1, []])
    })

    it('records the role admin in the audit log for --admin', async () => {
      const email = 'admin@example.com'
      const { code } = await users(['set-password', email, '--name', 'Admin', '--admin'], `${password}\n`)
      assert.equal(code, 0)
      const [user] = await call<{ id: number }[]>('GET', `/users?email=${email}`)
      const audit = `/api/audit?event=password.changed&target=${user?.id}`
      const [entry] = await call<{ details: object }[]>('GET', audit)
      assert.deepEqual(entry?.details, { role: 'admin' })
    })
  })
})
