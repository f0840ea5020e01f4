import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { forEachEngine } from '../support/engines.ts'
import { formAction } from './browser.ts'
import { authService, codeGrants, redirectUri } from './real.ts'

const nul = 'a\0b'

forEachEngine((engine) => {
  const auth = authService(engine)
  let machine: Record<string, string>
  let authorization: string
  before(async () => {
    const { id, secret } = await auth.client({ grants: ['client_credentials', 'password'], trusted: true })
    machine = { client_id: id, client_secret: secret as string }
    const { text } = await auth.postForm('/oauth/token', { ...machine, grant_type: 'client_credentials' })
    authorization = `Bearer ${JSON.parse(text).access_token}`
  })

  const callApi = async (method: string, path: string, payload?: object, type = 'application/json') => {
    const headers = { authorization, ...(payload && { 'content-type': type }) }
    const body = payload && JSON.stringify(payload)
    const response = await auth.send(path, { method: method as 'GET', headers, ...(body && { body }) })
    return { status: response.statusCode, body: await response.body.text() }
  }

  describe('U+0000, which cannot be stored', () => {
    it('400 if it is the client_id at the authorization endpoint', async () => {
      const { statusCode, body } = await auth.send('/oauth/authorize?client_id=a%00b&response_type=code')
      await body.dump()
      assert.equal(statusCode, 400)
    })

    it('401 invalid_client if it is the client_id at the token endpoint', async () => {
      const fields = { grant_type: 'client_credentials', client_id: nul, client_secret: nul }
      const { status, text } = await auth.postForm('/oauth/token', fields)
      assert.deepEqual([status, JSON.parse(text).error], [401, 'invalid_client'])
    })

    it('400 invalid_grant as a user name, code or refresh token', async () => {
      const grants: Record<string, string>[] = [
        { grant_type: 'password', username: nul, password: nul },
        { grant_type: 'authorization_code', code: nul, redirect_uri: nul },
        { grant_type: 'refresh_token', refresh_token: nul },
      ]
      const { id, secret } = await auth.client({ grants: [...codeGrants, 'password'], trusted: true })
      for (const grant of grants) {
        const known = { client_id: id, client_secret: secret as string }
        const { status, text } = await auth.postForm('/oauth/token', { ...known, ...grant })
        assert.deepEqual([status, JSON.parse(text).error], [400, 'invalid_grant'], grant.grant_type)
      }
    })

    it('200 as a token at the revocation and introspection endpoints; introspection reports it as inactive', async () => {
      const introspected = await auth.postForm('/oauth/introspect', { ...machine, token: nul })
      assert.deepEqual([introspected.status, JSON.parse(introspected.text)], [200, { active: false }])
      assert.equal((await auth.postForm('/oauth/revoke', { ...machine, token: nul })).status, 200)
    })

    it('422 as an e-mail address on the login page, as for any wrong address', async () => {
      const { id } = await auth.client()
      const one = auth.browser()
      const query = { client_id: id, response_type: 'code', scope: 'openid', redirect_uri: redirectUri }
      const page = await one.visit(`/oauth/authorize?${new URLSearchParams(query)}`)
      const { status, text } = await one.visit(formAction(page, 'login'), { email: `${nul}@x`, password: nul })
      assert.equal(status, 422)
      assert.match(text, /is wrong/)
    })

    it('404 as the id of a client, key, webhook or report', async () => {
      const responses = []
      for (const path of ['/api/clients/a%00b', '/api/keys/a%00b', '/api/webhooks/a%00b']) {
        for (const method of ['GET', 'DELETE']) responses.push(await callApi(method, path))
        responses.push(await callApi('PATCH', path, { name: 'New' }, 'application/merge-patch+json'))
      }
      for (const method of ['GET', 'DELETE']) responses.push(await callApi(method, '/api/reports/a%00b'))
      for (const path of ['clients/a%00b/rotate-secret', 'reports/a%00b/cancel', 'reports/a%00b/retry'])
        responses.push(await callApi('POST', `/api/${path}`))
      assert.deepEqual(new Set(responses.map(({ status }) => status)), new Set([404]), JSON.stringify(responses))
    })

    it('200 as an audit log filter, with an empty list', async () => {
      for (const name of ['event', 'clientId', 'subject', 'target']) {
        const { status, body } = await callApi('GET', `/api/audit?${name}=%00`)
        assert.deepEqual([status, body], [200, '[]'])
      }
    })
  })
})
