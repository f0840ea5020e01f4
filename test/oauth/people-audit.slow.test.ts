import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, it } from 'node:test'
import { request } from 'undici'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import {
  answer,
  browser,
  client,
  codeFlow,
  formAction,
  logIn,
  type Person,
  person,
  type Real,
  realServer,
  redirectUri,
  relyingParty,
  sentTo,
} from './real.ts'

forEachEngine((engine) => {
  let real: Real
  let who: Person
  before(async () => {
    real = await realServer(engine)
    who = await person(real)
  })
  after(() => real.close())

  const authorize = (clientId: string, more: Record<string, string> = {}) =>
    `/oauth/authorize?${new URLSearchParams({
      ...{ client_id: clientId, redirect_uri: redirectUri, response_type: 'code', scope: 'openid users:read' },
      ...more,
    })}`

  /** The audit entries about a client, oldest first, once there are as many. */
  const told = (clientId: string, count: number) =>
    eventually(`${count} entries`, async () => {
      const rows = real.db.read.selectFrom('auditEntries').selectAll().where('clientId', '=', clientId)
      const found = await rows.orderBy('sequence').execute()
      return found.length >= count && found
    })

  it('a login on a page: failures, success, denied and granted consent, each with its request', async () => {
    const app = await client(real)
    const one = browser(real)
    const page = await one.visit(authorize(app.id))
    const again = await logIn(one, page, { ...who, password: 'hunter2 hunter2' })
    const asked = await logIn(one, again, who)
    assert.equal(sentTo(await answer(one, asked, 'deny')).searchParams.get('error'), 'access_denied')
    await codeFlow(await relyingParty(real, app), one, who, { scope: 'openid users:read' })
    const entries = await told(app.id, 5)
    const facts = entries.map(({ event, subject, target }) => [event, subject, target])
    const byEvent = Object.fromEntries(entries.map((entry) => [entry.event, entry]))
    assert.deepEqual(facts.sort(), [
      ['consent.denied', who.sub, null],
      ['consent.granted', who.sub, null],
      ['login.failed', null, who.sub],
      ['login.succeeded', who.sub, null],
      ['token.granted', who.sub, null],
    ])
    assert.ok(entries.every(({ address, requestId }) => address === '127.0.0.1' && requestId !== null))
    assert.deepEqual(JSON.parse(byEvent['consent.granted']?.details ?? ''), { scopes: ['openid', 'users:read'] })
    assert.doesNotMatch(JSON.stringify(entries), /hunter2|@example/)
  })

  it('the password grant: the same entries, for its client', async () => {
    const app = await client(real, { grants: ['password'], trusted: true, redirectUris: [] })
    const ask = async (password: string) => {
      const form = { grant_type: 'password', username: who.email, password, scope: 'users:read' }
      const body = new URLSearchParams({ ...form, client_id: app.id, client_secret: app.secret as string }).toString()
      const headers = { 'content-type': 'application/x-www-form-urlencoded' }
      const url = `${real.baseUrl}/oauth/token`
      const answered = await request(url, { method: 'POST', body, headers, dispatcher: real.agent })
      await answered.body.dump()
      return answered.statusCode
    }
    assert.deepEqual([await ask('hunter2 hunter2'), await ask(who.password)], [400, 200])
    const entries = await told(app.id, 4)
    assert.deepEqual(entries.map(({ event }) => event).sort(), [
      'login.failed',
      'login.succeeded',
      'token.granted',
      'token.refused',
    ])
    assert.deepEqual(new Set(entries.map(({ address }) => address)), new Set(['127.0.0.1']))
  })

  it('an ID token without a code', async () => {
    const app = await client(real, { grants: ['implicit'] })
    const more = { response_type: 'id_token', scope: 'openid', nonce: randomBytes(8).toString('hex') }
    const one = browser(real)
    const page = await logIn(one, await one.visit(authorize(app.id, more)), who)
    const back = formAction(page, 'consent') ? await answer(one, page, 'allow') : page
    assert.match(sentTo(back).hash, /id_token=/)
    const entries = await told(app.id, 3)
    const granted = entries.find(({ event }) => event === 'token.granted')
    assert.deepEqual([granted?.subject, granted?.details], [who.sub, '{"grant":"implicit","scope":"openid"}'])
  })
})
