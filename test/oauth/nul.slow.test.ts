import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { request } from 'undici'
import { forEachEngine } from '../support/engines.ts'
import { browser, client, codeGrants, formAction, type Real, realServer, redirectUri } from './real.ts'

const nul = 'a\0b'

forEachEngine((engine) => {
  let real: Real
  let machine: Record<string, string>
  let authorization: string
  before(async () => {
    real = await realServer(engine)
    const { id, secret } = await client(real, { grants: ['client_credentials', 'password'], trusted: true })
    machine = { client_id: id, client_secret: secret as string }
    const { body } = await send('POST', '/oauth/token', { ...machine, grant_type: 'client_credentials' })
    authorization = `Bearer ${JSON.parse(body).access_token}`
  })
  after(() => real.close())

  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const send = async (method: string, path: string, fields?: Record<string, string>, headers = {}) => {
    const body = fields && new URLSearchParams(fields).toString()
    const about = { method: method as 'GET', headers: { ...(fields && form), ...headers }, dispatcher: real.agent }
    const answer = await request(real.baseUrl + path, { ...about, ...(body && { body }) })
    return { status: answer.statusCode, body: await answer.body.text() }
  }
  const called = (method: string, path: string, payload?: object, type = 'application/json') =>
    request(real.baseUrl + path, {
      method: method as 'GET',
      headers: { authorization, ...(payload && { 'content-type': type }) },
      dispatcher: real.agent,
      ...(payload && { body: JSON.stringify(payload) }),
    }).then(async ({ statusCode, body }) => ({ status: statusCode, body: await body.text() }))

  describe('U+0000, which no row can contain', () => {
    it('400 on the authorization page for such a client', async () => {
      const { status } = await send('GET', '/oauth/authorize?client_id=a%00b&response_type=code')
      assert.equal(status, 400)
    })

    it('401 invalid_client at the token endpoint', async () => {
      const fields = { grant_type: 'client_credentials', client_id: nul, client_secret: nul }
      const { status, body } = await send('POST', '/oauth/token', fields)
      assert.deepEqual([status, JSON.parse(body).error], [401, 'invalid_client'])
    })

    it('400 invalid_grant for such a user name, code or refresh token', async () => {
      const grants: Record<string, string>[] = [
        { grant_type: 'password', username: nul, password: nul },
        { grant_type: 'authorization_code', code: nul, redirect_uri: nul },
        { grant_type: 'refresh_token', refresh_token: nul },
      ]
      const { id, secret } = await client(real, { grants: [...codeGrants, 'password'], trusted: true })
      for (const grant of grants) {
        const known = { client_id: id, client_secret: secret as string }
        const { status, body } = await send('POST', '/oauth/token', { ...known, ...grant })
        assert.deepEqual([status, JSON.parse(body).error], [400, 'invalid_grant'], grant.grant_type)
      }
    })

    it('200 and inactive at introspection, 200 at revocation', async () => {
      const asked = await send('POST', '/oauth/introspect', { ...machine, token: nul })
      assert.deepEqual([asked.status, JSON.parse(asked.body)], [200, { active: false }])
      assert.equal((await send('POST', '/oauth/revoke', { ...machine, token: nul })).status, 200)
    })

    it('422 with the login page again, as for any wrong address', async () => {
      const { id } = await client(real)
      const one = browser(real)
      const query = { client_id: id, response_type: 'code', scope: 'openid', redirect_uri: redirectUri }
      const page = await one.visit(`/oauth/authorize?${new URLSearchParams(query)}`)
      const { status, text } = await one.visit(formAction(page, 'login'), { email: `${nul}@x`, password: nul })
      assert.equal(status, 422)
      assert.match(text, /wrong|not right/)
    })

    it('404 for every resource with such an id', async () => {
      const answers = []
      for (const path of ['/api/clients/a%00b', '/api/keys/a%00b', '/api/webhooks/a%00b']) {
        for (const method of ['GET', 'DELETE']) answers.push(await called(method, path))
        answers.push(await called('PATCH', path, { name: 'New' }, 'application/merge-patch+json'))
      }
      for (const method of ['GET', 'DELETE']) answers.push(await called(method, '/api/reports/a%00b'))
      for (const path of ['clients/a%00b/rotate-secret', 'reports/a%00b/cancel', 'reports/a%00b/retry'])
        answers.push(await called('POST', `/api/${path}`))
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([404]), JSON.stringify(answers))
    })

    it('an empty audit log', async () => {
      for (const name of ['event', 'clientId', 'subject', 'target']) {
        const { status, body } = await called('GET', `/api/audit?${name}=%00`)
        assert.deepEqual([status, body], [200, '[]'])
      }
    })
  })
})
