import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { it } from 'node:test'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { formAction, sentTo } from './browser.ts'
import { authService, codeFlow, redirectUri } from './real.ts'

forEachEngine((engine) => {
  const auth = authService(engine)

  const authorize = (clientId: string, more: Record<string, string> = {}) =>
    `/oauth/authorize?${new URLSearchParams({
      ...{ client_id: clientId, redirect_uri: redirectUri, response_type: 'code', scope: 'openid users:read' },
      ...more,
    })}`

  /** Waits until there are `count` audit entries about a client; returns them, oldest first. */
  const auditEntries = (clientId: string, count: number) =>
    eventually(`${count} entries`, async () => {
      const rows = auth.db.read.selectFrom('auditEntries').selectAll().where('clientId', '=', clientId)
      const found = await rows.orderBy('sequence').execute()
      return found.length >= count && found
    })

  it('the audit log records logins and consent decisions, each with a request id', async () => {
    const app = await auth.client()
    const one = auth.browser()
    const page = await one.visit(authorize(app.id))
    const again = await one.logIn(page, { ...auth.user, password: 'hunter2 hunter2' })
    const consentPage = await one.logIn(again, auth.user)
    assert.equal(sentTo(await one.decide(consentPage, 'deny')).searchParams.get('error'), 'access_denied')
    await codeFlow(await auth.relyingParty(app), one, auth.user, { scope: 'openid users:read' })
    const entries = await auditEntries(app.id, 5)
    const summaries = entries.map(({ event, subject, target }) => [event, subject, target])
    const byEvent = Object.fromEntries(entries.map((entry) => [entry.event, entry]))
    assert.deepEqual(summaries.sort(), [
      ['consent.denied', auth.user.sub, null],
      ['consent.granted', auth.user.sub, null],
      ['login.failed', null, auth.user.sub],
      ['login.succeeded', auth.user.sub, null],
      ['token.granted', auth.user.sub, null],
    ])
    assert.ok(entries.every(({ address, requestId }) => address === '127.0.0.1' && requestId !== null))
    assert.deepEqual(JSON.parse(byEvent['consent.granted']?.details ?? ''), { scopes: ['openid', 'users:read'] })
    assert.doesNotMatch(JSON.stringify(entries), /hunter2|@example/)
  })

  it('the audit log has login and token entries for the password grant', async () => {
    const app = await auth.client({ grants: ['password'], trusted: true, redirectUris: [] })
    const ask = async (password: string) => {
      const form = { grant_type: 'password', username: auth.user.email, password, scope: 'users:read' }
      const credentials = { client_id: app.id, client_secret: app.secret as string }
      return (await auth.postForm('/oauth/token', { ...form, ...credentials })).status
    }
    assert.deepEqual([await ask('hunter2 hunter2'), await ask(auth.user.password)], [400, 200])
    const entries = await auditEntries(app.id, 4)
    assert.deepEqual(entries.map(({ event }) => event).sort(), [
      'login.failed',
      'login.succeeded',
      'token.granted',
      'token.refused',
    ])
    assert.deepEqual(new Set(entries.map(({ address }) => address)), new Set(['127.0.0.1']))
  })

  it('the audit log records an ID token issued without a code', async () => {
    const app = await auth.client({ grants: ['implicit'] })
    const more = { response_type: 'id_token', scope: 'openid', nonce: randomBytes(8).toString('hex') }
    const one = auth.browser()
    const page = await one.logIn(await one.visit(authorize(app.id, more)), auth.user)
    const back = formAction(page, 'consent') ? await one.decide(page, 'allow') : page
    assert.match(sentTo(back).hash, /id_token=/)
    const entries = await auditEntries(app.id, 3)
    const granted = entries.find(({ event }) => event === 'token.granted')
    assert.deepEqual([granted?.subject, granted?.details], [auth.user.sub, '{"grant":"implicit","scope":"openid"}'])
  })
})
