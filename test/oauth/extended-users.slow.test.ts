import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { request } from 'undici'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { Line, plinth, Type } from '../../src/plinth.ts'
import { forEachEngine } from '../support/engines.ts'
import { browser } from './browser.ts'
import {
  codeFlow,
  codeGrants,
  type Person,
  password,
  person,
  type Real,
  realServer,
  redirectUri,
  relyingParty,
} from './real.ts'

const { service } = plinth({
  users: {
    fields: Type.Object({
      tenant: Line(1, 40),
      firstLanguage: Type.Optional(Line(2, 40)),
      level: Type.Optional(Type.Enum(['a', 'b'])),
      passwordHash: Type.Optional(Line(1, 40)),
      expiresAt: Type.Optional(Line(1, 40)),
      userId: Type.Optional(Type.Integer()),
    }),
    roles: ['member', 'auditor'],
    own: ['phone', 'firstLanguage', 'level'],
    userinfo: ['tenant', 'role'],
  },
})
const definition = service({ resources: [] })
const scope = 'openid profile users:read users:write:own users:write users:read:full admin'

forEachEngine((engine) => {
  describe('a service that adds fields and roles to users', () => {
    let real: Real
    let user: Person
    let administrator: Person
    let app: Awaited<ReturnType<typeof relyingParty>>
    before(async () => {
      real = await realServer(engine, {}, definition)
      const settings = { name: 'App', scopes: scope.split(' '), grants: codeGrants, redirectUris: [redirectUri] }
      const { client, secret } = await createClient(real.db, real.sealer, definition.scopes, settings)
      app = await relyingParty(real, { id: client.id, secret })
      user = await person(real)
      administrator = await person(real, { role: 'admin' })
    })
    after(() => real.close())
    const tokensOf = async (who: Person) => (await codeFlow(app, browser(real), who, { scope })).tokens
    const call = async (token: string, method: 'GET' | 'PATCH', path: string, body?: object) => {
      const headers = {
        authorization: `Bearer ${token}`,
        ...(body && { 'content-type': 'application/merge-patch+json' }),
      }
      const sent = { method, headers, dispatcher: real.agent, ...(body && { body: JSON.stringify(body) }) }
      const response = await request(real.baseUrl + path, sent)
      return { status: response.statusCode, body: (await response.body.json()) as Record<string, unknown> }
    }

    it('grants users:write:own to every user, and users:write to administrators only', async () => {
      const [ofUser, ofAdministrator] = [await tokensOf(user), await tokensOf(administrator)]
      assert.equal(ofUser.scope, 'openid profile users:read users:write:own')
      assert.equal(ofAdministrator.scope, scope)
      const path = `/users/${user.userId}`
      assert.equal((await call(ofUser.access_token, 'PATCH', path, { phone: '+44 1' })).body.phone, '+44 1')
      const refused = await call(ofUser.access_token, 'PATCH', path, { tenant: 'north' })
      assert.deepEqual([refused.status, refused.body.errorCode], [403, 'PERMISSION_DENIED'])
      const set = await call(ofAdministrator.access_token, 'PATCH', path, { tenant: 'north', role: 'auditor' })
      assert.deepEqual([set.status, set.body.tenant, set.body.role], [200, 'north', 'auditor'])
    })

    it('adds the fields listed in `userinfo` to the userinfo response for the profile scope', async () => {
      const { access_token } = await tokensOf(user)
      const { status, body } = await call(access_token, 'GET', '/oauth/userinfo')
      const { sub, name } = user
      assert.deepEqual([status, body], [200, { sub, name, tenant: 'north', role: 'auditor' }])
      const without = (await codeFlow(app, browser(real), user, { scope: 'openid' })).tokens
      assert.deepEqual((await call(without.access_token, 'GET', '/oauth/userinfo')).body, { sub })
      const none = await tokensOf(administrator)
      assert.deepEqual(Object.keys((await call(none.access_token, 'GET', '/oauth/userinfo')).body), ['sub', 'name'])
      const { claims_supported } = (await call('', 'GET', '/.well-known/openid-configuration')).body
      assert.deepEqual(
        ['tenant', 'role'].filter((claim) => !(claims_supported as string[]).includes(claim)),
        [],
      )
    })

    it('shows the text fields listed in `own` on the invitation page, and stores what the user enters', async () => {
      const { access_token } = await tokensOf(administrator)
      const id = (await person(real)).userId
      const headers = { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' }
      const url = `${real.baseUrl}/api/users/${id}/invitation`
      const invited = await request(url, { method: 'POST', headers, body: '{"role":"member"}', dispatcher: real.agent })
      const link = ((await invited.body.json()) as { url: string }).url
      const one = browser(real)
      const page = await one.visit(link)
      const names = [...page.text.matchAll(/ name="(field-\w+)"/g)].map(([, name]) => name)
      assert.deepEqual(names, ['field-phone', 'field-firstLanguage'])
      assert.match(page.text, /<label for="field-firstLanguage">First language \(optional\)<\/label>/)
      const form = { token: new URL(link).searchParams.get('token') as string, password, repeated: password }
      const send = (more: Record<string, string>) => one.visit('/oauth/invitation', { ...form, ...more })
      const wrong = await send({ 'field-firstLanguage': 'x', 'field-phone': '+44 "2"' })
      assert.deepEqual([wrong.status, /First language must not have fewer than 2/.test(wrong.text)], [422, true])
      const invalid = await send({ 'field-firstLanguage': 'en', 'field-phone': '<b>' })
      assert.match(invalid.text, /value="&lt;b&gt;"/)
      assert.match(
        (await send({ 'field-phone': ' ', 'field-firstLanguage': 'English', 'field-tenant': 'x' })).text,
        /is set/,
      )
      const { body } = await call(access_token, 'GET', `/users/${id}`)
      assert.deepEqual(
        [body.firstLanguage, body.phone, body.tenant, body.role],
        ['English', undefined, undefined, 'member'],
      )
    })
  })
})
