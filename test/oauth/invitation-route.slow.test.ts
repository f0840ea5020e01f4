import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { describe, it } from 'node:test'
import { Agent, request } from 'undici'
import { forEachEngine, onSqlite } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { authService, password, person, type Real, realServer } from './real.ts'

const boot = { PLINTH_BOOTSTRAP_CLIENT_ID: 'boot', PLINTH_BOOTSTRAP_CLIENT_SECRET: 'boot secret of the tests' }

/** The members that these tests read from responses after they create or invite a user. */
interface UserOrInvitation {
  id: number
  email: string
  sent: boolean
  url: string
}

/** Calls the API as the bootstrap client with these scopes. */
async function call(
  real: Real,
  scope: string,
  path: string,
  body?: object,
  more: Record<string, string> = {},
  method: 'POST' | 'PATCH' = 'POST',
) {
  const send = (url: string, headers: Record<string, string>, text?: string, by: typeof method = 'POST') =>
    request(real.baseUrl + url, { method: by, headers, body: text, dispatcher: real.agent })
  const [client_id, client_secret] = Object.values(boot) as [string, string]
  const form = new URLSearchParams({ grant_type: 'client_credentials', client_id, client_secret, scope })
  const granted = await send('/oauth/token', { 'content-type': 'application/x-www-form-urlencoded' }, `${form}`)
  const { access_token } = (await granted.body.json()) as { access_token: string }
  const type = body && { 'content-type': 'application/json' }
  const headers = { authorization: `Bearer ${access_token}`, ...type, ...more }
  const response = await send(path, headers, body && JSON.stringify(body), method)
  return {
    status: response.statusCode,
    headers: response.headers,
    body: (await response.body.json()) as UserOrInvitation,
  }
}

forEachEngine((engine) => {
  const auth = authService(engine, boot)

  const newUser = async () => {
    const email = `new${++auth.people}@example.com`
    const { body } = await call(auth, 'users:write', '/users', { name: 'New <Person>', email })
    return { id: body.id, email }
  }

  describe('POST /api/users/{id}/invitation', () => {
    it('201, not cacheable, with a single-use link for setting a password', async () => {
      const { id, email } = await newUser()
      const { status, headers, body } = await call(auth, 'admin', `/api/users/${id}/invitation`)
      assert.equal(status, 201)
      assert.equal(headers['cache-control'], 'no-store')
      assert.deepEqual([body.email, body.sent], [email, false])
      const { visit } = auth.browser()
      const page = await visit(body.url)
      assert.ok(page.text.includes('New &lt;Person&gt;') && page.text.includes(email))
      const form = { token: new URL(body.url).searchParams.get('token') as string, password, repeated: password }
      const differing = await visit('/oauth/invitation', { ...form, repeated: 'other' })
      assert.deepEqual([differing.status, /do not match/.test(differing.text)], [422, true])
      const weak = await visit('/oauth/invitation', { ...form, password: 'password1234', repeated: 'password1234' })
      assert.deepEqual([weak.status, /easy to guess/.test(weak.text)], [422, true])
      assert.match((await visit('/oauth/invitation', form)).text, /Your password is set/)
      assert.equal((await visit('/oauth/invitation', form)).status, 404)
      assert.equal((await visit(body.url)).status, 404)
    })

    it('T-AUTH-04 201 with a link to the service’s own origin, even if Host and X-Forwarded-Host name another host', async () => {
      const { id } = await newUser()
      const hostile = { host: 'evil.example', 'x-forwarded-host': 'evil.example', forwarded: 'host=evil.example' }
      // undici checks the certificate against the Host header.
      const ca = readFileSync(auth.authorityFile as string)
      const agent = new Agent({ connect: { ca, checkServerIdentity: () => undefined } })
      const path = `/v1/api/users/${id}/invitation`
      const { status, body } = await call({ ...auth, agent }, 'admin', path, { role: 'admin' }, hostile)
      await agent.close()
      assert.equal(status, 201)
      assert.ok(body.url.startsWith(`${auth.baseUrl}/oauth/invitation?token=`))
    })

    it('a new e-mail address invalidates the link sent to the old address; other changes do not', async () => {
      const { id, email } = await newUser()
      const patch = (change: object) => call(auth, 'users:write', `/users/${id}`, change, {}, 'PATCH')
      const { body } = await call(auth, 'admin', `/api/users/${id}/invitation`)
      const { visit } = auth.browser()
      for (const change of [{ name: 'New Name' }, { email }]) {
        assert.equal((await patch(change)).status, 200)
        assert.equal((await visit(body.url)).status, 200)
      }
      assert.equal((await patch({ email: `moved.${email}` })).status, 200)
      assert.equal((await visit(body.url)).status, 404)
      const form = { token: new URL(body.url).searchParams.get('token') as string, password, repeated: password }
      assert.equal((await visit('/oauth/invitation', form)).status, 404)
      const again = await call(auth, 'admin', `/api/users/${id}/invitation`)
      assert.equal(again.body.email, `moved.${email}`)
      assert.equal((await visit(again.body.url)).status, 200)
    })

    it('an invitation created during an address change is for the new address or is invalid', async () => {
      for (let round = 0; round < 8; round++) {
        const { id, email } = await newUser()
        const [invited, patched] = await Promise.all([
          call(auth, 'admin', `/api/users/${id}/invitation`),
          call(auth, 'users:write', `/users/${id}`, { email: `moved.${email}` }, {}, 'PATCH'),
        ])
        assert.deepEqual([invited.status, patched.status], [201, 200])
        const { status } = await auth.browser().visit(invited.body.url)
        assert.equal(status, invited.body.email === email ? 404 : 200)
      }
    })

    it('403 without the admin scope, 404 for an unknown user, 422 for an unknown role, 400 for a malformed id', async () => {
      const { id } = await newUser()
      assert.equal((await call(auth, 'users:write', `/api/users/${id}/invitation`)).status, 403)
      for (const id of [999_999, 9_999_999_999]) {
        assert.equal((await call(auth, 'admin', `/api/users/${id}/invitation`)).status, 404)
      }
      assert.equal((await call(auth, 'admin', `/api/users/${id}/invitation`, { role: 'king' })).status, 422)
      assert.equal((await call(auth, 'admin', '/api/users/x/invitation')).status, 400)
    })
  })

  it('POST /oauth/invitation: 415 for a body that is not a form and 413 for a large body, as HTML pages', async () => {
    const { visit } = auth.browser()
    const json = await visit('/oauth/invitation', {}, { 'content-type': 'application/json' })
    assert.equal(json.status, 415)
    const large = await visit('/oauth/invitation', { token: 'x'.repeat(20_000) })
    assert.equal(large.status, 413)
    for (const { headers } of [json, large]) assert.match(String(headers['content-type']), /^text\/html/)
  })
})

/** Starts a mail server (RFC 5321) that stores messages, or rejects every recipient. */
async function mailServer(refuses = false) {
  const mails: string[] = []
  const server = createServer((socket) => {
    const say = (line: string) => socket.write(`${line}\r\n`)
    let data: string[] | undefined
    say('220 mail.test')
    createInterface({ input: socket }).on('line', (line) => {
      if (data && line !== '.') return void data.push(line)
      if (data) {
        mails.push(data.join('\n'))
        data = undefined
        return say('250 queued')
      }
      if (/^RCPT/i.test(line) && refuses) return say('550 no such user')
      if (/^DATA/i.test(line)) {
        data = []
        return say('354 start mail input')
      }
      if (/^QUIT/i.test(line)) return void socket.end('221 bye\r\n')
      return say('250 ok')
    })
    socket.on('error', () => {})
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { mails, url: `smtp://127.0.0.1:${port}`, close: () => server.close() }
}

onSqlite((engine) => {
  for (const refuses of [false, true]) {
    it(`inviting a user: 201 with sent: ${refuses ? 'false for a rejected mail' : 'true and a mailed link'}`, async () => {
      const mail = await mailServer(refuses)
      const smtp = {
        PLINTH_SMTP_URL: mail.url,
        PLINTH_SMTP_FROM: 'plinth@example.com',
        PLINTH_PRODUCT_NAME: 'Söderbergs',
      }
      const real = await realServer(engine, { ...boot, ...smtp })
      try {
        const { userId, email } = await person(real)
        const invited = () =>
          call(real, 'admin', `/api/users/${userId}/invitation`, undefined, { 'idempotency-key': 'once' })
        const { status, body } = await invited()
        assert.deepEqual([status, body.sent, body.email], [201, !refuses, email])
        const again = await invited()
        const { sent: _, ...known } = body
        assert.deepEqual([again.headers['idempotent-replayed'], again.body], ['true', known], 'the replay omits `sent`')
        if (refuses) return assert.deepEqual(mail.mails, [])
        const [text] = await eventually('the mail has arrived', async () => mail.mails.length > 0 && mail.mails)
        const decoded = text?.replaceAll('=\n', '').replaceAll('=3D', '=')
        assert.ok(decoded?.includes(body.url))
        assert.match(text ?? '', /^To: Ada Lovelace <ada1@example\.com>$/m)
        assert.match(text ?? '', /^From: plinth@example\.com$/m)
      } finally {
        await real.close()
        mail.close()
      }
    })
  }
})
