import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import * as openid from 'openid-client'
import { forEachEngine } from '../support/engines.ts'
import { authService, codeFlow, type Person, redirectUri } from './real.ts'

interface Session {
  id: string
  startedAt: string
  lastUsedAt: string
  expiresAt: string
  clients: { id: string; name: string | null }[]
}

interface Grant {
  clientId: string
  clientName: string | null
  scopes: string[]
  since: string | null
  lastTokenAt: string | null
  consent: { scopes: string[] } | null
}

forEachEngine((engine) => {
  const auth = authService(engine)
  let admin: string
  before(async () => {
    const config = await auth.openidClient({ grants: ['client_credentials'] })
    admin = (await openid.clientCredentialsGrant(config, { scope: 'admin users:read' })).access_token
  })

  const call = async (method: 'GET' | 'PATCH' | 'DELETE', path: string, body?: object, token = admin) => {
    const headers = { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) }
    const response = await auth.send(path, { method, headers, body: body ? JSON.stringify(body) : null })
    const text = await response.body.text()
    return { status: response.statusCode, headers: response.headers, body: text === '' ? null : JSON.parse(text) }
  }
  const sessionsOf = async ({ userId }: Person): Promise<Session[]> =>
    (await call('GET', `/api/users/${userId}/sessions`)).body
  const grantsOf = async ({ userId }: Person): Promise<Grant[]> =>
    (await call('GET', `/api/users/${userId}/grants`)).body
  const scope = 'openid users:read'

  /** Logs a user in to a new client; returns the tokens and the configuration of the client. */
  const logIn = async (who: Person, one = auth.browser(), change = {}) => {
    const app = await auth.client(change)
    const config = await auth.relyingParty(app)
    const { tokens } = await codeFlow(config, one, who, { scope })
    return { app, one, config, access: tokens.access_token, refresh: tokens.refresh_token ?? '' }
  }
  const refused = (config: openid.Configuration, refresh: string) =>
    assert.rejects(openid.refreshTokenGrant(config, refresh), { error: 'invalid_grant' })
  const entriesAbout = async ({ userId }: Person, event: string) => {
    const entries = auth.db.read.selectFrom('auditEntries').select(['subject', 'details'])
    return entries.where('target', '=', String(userId)).where('event', '=', event).execute()
  }
  /** Requests a code with `prompt=none`; returns the error, or null if there is none. */
  const silentError = async ({ app, one }: Awaited<ReturnType<typeof logIn>>) => {
    const query = { response_type: 'code', client_id: app.id, redirect_uri: redirectUri, scope, prompt: 'none' }
    const page = await one.visit(`/oauth/authorize?${new URLSearchParams(query)}`)
    return new URL(String(page.headers.location)).searchParams.get('error')
  }

  describe('GET /api/users/{id}/sessions', () => {
    it('200 with the clients and times of each session, but without the value of the session cookie', async () => {
      const who = await auth.person()
      const first = await logIn(who)
      const second = await logIn(who, first.one, { name: 'Second App' })
      const elsewhere = await logIn(who)
      const sessions = await sessionsOf(who)
      const clients = sessions.map((session) => session.clients.map(({ id }) => id).sort())
      assert.deepEqual(
        clients.sort((one, other) => one.length - other.length),
        [[elsewhere.app.id], [first.app.id, second.app.id].sort()],
      )
      assert.ok(sessions.flatMap(({ clients }) => clients).some(({ name }) => name === 'Second App'))
      for (const { startedAt, lastUsedAt, expiresAt } of sessions) {
        assert.ok(startedAt <= lastUsedAt && lastUsedAt < expiresAt)
        const hours = (Date.parse(expiresAt) - Date.parse(startedAt)) / 3_600_000
        assert.equal(Math.round(hours * 100) / 100, 8)
      }
      const cookies = [...first.one.jar.values()].map(({ value }) => value)
      assert.ok(cookies.length > 0 && !cookies.some((value) => JSON.stringify(sessions).includes(value)))
    })

    it('200 with an empty list for a user without sessions, 404 for an unknown user, 403 without the admin scope', async () => {
      const who = await auth.person()
      assert.deepEqual(await sessionsOf(who), [])
      for (const what of ['sessions', 'grants']) {
        assert.equal((await call('GET', `/api/users/999999/${what}`)).status, 404)
        assert.equal((await call('GET', `/api/users/9999999999/${what}`)).status, 404)
      }
      const { access } = await logIn(who)
      assert.equal((await call('GET', `/api/users/${who.userId}/sessions`, undefined, access)).status, 403)
      assert.equal((await call('DELETE', `/api/users/${who.userId}/sessions`, undefined, access)).status, 403)
    })
  })

  describe('DELETE /api/users/{id}/sessions/{sessionId}', () => {
    it('T-AUTH-08 204: ends the session and revokes its tokens; other sessions continue', async () => {
      const who = await auth.person()
      const laptop = await logIn(who)
      const phone = await logIn(who)
      const lost = (await sessionsOf(who)).find(({ clients }) => clients[0]?.id === laptop.app.id)
      assert.ok(lost)
      assert.equal((await call('DELETE', `/api/users/${who.userId}/sessions/${lost.id}`)).status, 204)
      assert.deepEqual([await auth.statusFor(laptop.access), await auth.statusFor(phone.access)], [401, 200])
      await refused(laptop.config, laptop.refresh)
      await openid.refreshTokenGrant(phone.config, phone.refresh)
      assert.deepEqual([await silentError(laptop), await silentError(phone)], ['login_required', null])
      assert.deepEqual(
        (await sessionsOf(who)).map(({ clients }) => clients[0]?.id),
        [phone.app.id],
      )
      const [entry] = await entriesAbout(who, 'session.ended')
      assert.deepEqual(JSON.parse(String(entry?.details)), { session: lost.id, clients: [laptop.app.id] })
    })

    it('404 for an unknown session and for another user’s session; no session ends', async () => {
      const [who, other] = [await auth.person(), await auth.person()]
      const { access } = await logIn(who)
      const [session] = await sessionsOf(who)
      for (const [userId, id] of [
        [who.userId, 'unknown'],
        [other.userId, session?.id],
        [999_999, session?.id],
      ]) {
        assert.equal((await call('DELETE', `/api/users/${userId}/sessions/${id}`)).status, 404)
      }
      assert.equal(await auth.statusFor(access), 200)
      assert.deepEqual(await entriesAbout(other, 'session.ended'), [])
    })
  })

  describe('DELETE /api/users/{id}/sessions', () => {
    it('204: ends every login, grant and token; consents remain', async () => {
      const who = await auth.person()
      const [one, other] = [await logIn(who), await logIn(who)]
      assert.equal((await call('DELETE', `/api/users/${who.userId}/sessions`)).status, 204)
      for (const { access, config, refresh } of [one, other]) {
        assert.equal(await auth.statusFor(access), 401)
        await refused(config, refresh)
      }
      assert.equal(await silentError(one), 'login_required')
      assert.deepEqual(await sessionsOf(who), [])
      const grants = await grantsOf(who)
      assert.deepEqual(
        grants.map(({ clientId, scopes, since, consent }) => [clientId, scopes, since, consent?.scopes]),
        [one.app.id, other.app.id].sort().map((id) => [id, [], null, scope.split(' ')]),
      )
      const [entry] = await entriesAbout(who, 'session.ended')
      assert.deepEqual(JSON.parse(String(entry?.details)), { sessions: 2 })
      assert.equal((await call('DELETE', '/api/users/999999/sessions')).status, 404)
    })
  })

  describe('GET /api/users/{id}/grants and DELETE /api/users/{id}/grants/{clientId}', () => {
    it('200 with the scopes, the times and the consent of each client; a first-party client has no consent', async () => {
      const who = await auth.person()
      const asked = await logIn(who)
      const own = await logIn(who, asked.one, { name: 'Own App', firstParty: true })
      const grants = await grantsOf(who)
      const byId = (id: string) => grants.find(({ clientId }) => clientId === id)
      assert.equal(grants.length, 2)
      assert.deepEqual(byId(asked.app.id)?.consent?.scopes, scope.split(' '))
      assert.deepEqual([byId(own.app.id)?.clientName, byId(own.app.id)?.consent], ['Own App', null])
      for (const { scopes, since, lastTokenAt } of grants) {
        assert.deepEqual(scopes, scope.split(' '))
        assert.ok(since !== null && lastTokenAt !== null && since <= lastTokenAt)
      }
    })

    it('204: revokes the user’s consent and the client’s tokens for this user; other grants continue', async () => {
      const [who, other] = [await auth.person(), await auth.person()]
      const ended = await logIn(who)
      const going = await logIn(who, ended.one)
      const { tokens } = await codeFlow(ended.config, auth.browser(), other, { scope })
      const path = `/api/users/${who.userId}/grants/${ended.app.id}`
      assert.equal((await call('DELETE', path)).status, 204)
      assert.equal(await auth.statusFor(ended.access), 401)
      await refused(ended.config, ended.refresh)
      assert.deepEqual([await auth.statusFor(going.access), await auth.statusFor(tokens.access_token)], [200, 200])
      assert.deepEqual([await silentError(ended), await silentError(going)], ['consent_required', null])
      assert.deepEqual(
        (await grantsOf(who)).map(({ clientId }) => clientId),
        [going.app.id],
      )
      const [entry] = await entriesAbout(who, 'consent.revoked')
      assert.deepEqual(JSON.parse(String(entry?.details)), { client: ended.app.id })
      assert.equal((await call('DELETE', path)).status, 404)
    })

    it('412 for a DELETE with an ETag in If-Match, because sessions and grants have no ETag', async () => {
      const who = await auth.person()
      const { app, access } = await logIn(who)
      const headers = { authorization: `Bearer ${admin}`, 'if-match': '"1"' }
      for (const path of ['sessions', `grants/${app.id}`]) {
        const response = await auth.send(`/api/users/${who.userId}/${path}`, { method: 'DELETE', headers })
        await response.body.dump()
        assert.equal(response.statusCode, 412)
      }
      assert.equal(await auth.statusFor(access), 200)
    })
  })

  describe('a locked user', () => {
    const lock = (who: Person, locked: boolean) => call('PATCH', `/api/users/${who.userId}/account`, { locked })

    it('gets the same response as for a wrong password; can log in after being unlocked', async () => {
      const who = await auth.person()
      const app = await auth.client()
      const query = { response_type: 'code', client_id: app.id, redirect_uri: redirectUri, scope }
      const start = `/oauth/authorize?${new URLSearchParams(query)}`
      const { body } = await lock(who, true)
      assert.deepEqual([body.status, body.hasPassword, typeof body.lockedAt], ['locked', true, 'string'])
      const one = auth.browser()
      const page = await one.logIn(await one.visit(start), who)
      assert.deepEqual([page.status, /e-mail address or password is wrong/.test(page.text)], [422, true])
      const trusted = await auth.client({ grants: ['password'], trusted: true })
      const form = { grant_type: 'password', username: who.email, password: who.password, scope: 'users:read' }
      const credentials = { client_id: trusted.id, client_secret: String(trusted.secret) }
      const grant = await auth.postForm('/oauth/token', { ...form, ...credentials })
      assert.deepEqual([grant.status, JSON.parse(grant.text).error], [400, 'invalid_grant'])
      assert.equal((await lock(who, false)).body.status, 'active')
      assert.equal((await auth.postForm('/oauth/token', { ...form, ...credentials })).status, 200)
    })

    it('loses the session and all tokens; unlocking restores none of them', async () => {
      const who = await auth.person()
      const begun = await logIn(who)
      await lock(who, true)
      await refused(begun.config, begun.refresh)
      assert.equal(await silentError(begun), 'login_required')
      await lock(who, false)
      await refused(begun.config, begun.refresh)
      assert.deepEqual([await silentError(begun), await auth.statusFor(begun.access)], ['login_required', 401])
    })

    it('loses the pending invitation, and stays locked after using a new one', async () => {
      const who = await auth.person()
      const invite = async () => {
        const headers = { authorization: `Bearer ${admin}` }
        const response = await auth.send(`/api/users/${who.userId}/invitation`, { method: 'POST', headers })
        return ((await response.body.json()) as { url: string }).url
      }
      const before = await invite()
      await lock(who, true)
      const { visit } = auth.browser()
      assert.equal((await visit(before)).status, 404)
      const token = new URL(await invite()).searchParams.get('token') as string
      const password = 'walnut harbour kettle'
      assert.equal((await visit('/oauth/invitation', { token, password, repeated: password })).status, 200)
      assert.equal((await call('GET', `/api/users/${who.userId}/account`)).body.status, 'locked')
    })

    it('T-AUTH-08 gets 401 with a token that was issued while the account was being locked', async () => {
      const who = await auth.person()
      const { access } = await logIn(who)
      // Sets only `lockedAt`, because a concurrent login can store its token after locking has revoked the others.
      await auth.db.write((tx) =>
        tx
          .updateTable('accounts')
          .set({ lockedAt: new Date().toISOString() })
          .where('userId', '=', who.userId)
          .execute(),
      )
      const other = await auth.openidClient({ grants: ['client_credentials'] })
      await openid.tokenRevocation(
        other,
        (await openid.clientCredentialsGrant(other, { scope: 'users:read' })).access_token,
      )
      assert.equal(await auth.statusFor(access), 401)
    })
  })
})
