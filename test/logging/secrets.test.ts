import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { errorFields, redactor } from '../../src/logging/redact.ts'
import { ended, eventually, killAll, newPlace, occupied, plinth, visit } from '../cli/support.ts'

/** A substring of every test secret; the output must not contain it. */
const planted = 'pl4nted'
const secret = (name: string) => `${name}-${planted}-0123456789abcdefghijklmnop`

describe('T-OPS-02 the output of a service', () => {
  after(killAll)

  it('contains no credentials from requests, settings or failures', async () => {
    const { port, env, dataDir, remove } = await newPlace()
    const closed = await occupied()
    await new Promise((resolve) => closed.server.close(resolve))
    const dead = `127.0.0.1:${closed.port}`
    const service = plinth(['serve'], {
      ...env,
      ...{ PLINTH_TLS: 'off', PLINTH_BOOTSTRAP_CLIENT_ID: 'boot', PLINTH_BOOTSTRAP_CLIENT_SECRET: secret('client') },
      ...{ PLINTH_SMTP_URL: `smtp://mail:${secret('smtp')}@${dead}`, PLINTH_SMTP_FROM: 'a@example.com' },
      ...{ REDIS_URL: `redis://:${secret('redis')}@${dead}`, PLINTH_JWT_SHARED_SECRET: secret('jwt') },
      ...{ AWS_SECRET_ACCESS_KEY: secret('aws'), PLINTH_WEBHOOK_SCHEDULE: '0,600' },
    })
    const base = `http://localhost:${port}`
    const send = (method: string, path: string, headers: Record<string, string> = {}, body?: string) =>
      visit(dataDir, base + path, { method, headers, ...(body !== undefined && { body }) })
    await eventually('the service responds', () => send('GET', '/livez').catch(() => false as const), 20_000)
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const basic = (id: string, text: string) => ({
      authorization: `Basic ${Buffer.from(`${id}:${text}`).toString('base64')}`,
    })
    const granted = await send(
      'POST',
      '/oauth/token',
      { ...form, ...basic('boot', secret('client')) },
      'grant_type=client_credentials',
    )
    const token = granted.json().access_token as string
    const json = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const hook = await send(
      'POST',
      '/api/webhooks',
      json,
      JSON.stringify({
        ...{ event: '*', callbackUrl: `http://${dead}/${secret('path')}?token=${secret('query')}` },
        headers: { Authorization: `Bearer ${secret('static')}` },
      }),
    )
    assert.equal(hook.status, 201)
    const passwordGrant = `grant_type=password&username=${secret('user')}&password=${secret('password')}`
    const requests: Parameters<typeof send>[] = [
      ['POST', `/api/webhooks/${hook.json().id}/test`, json, '{}'],
      ['GET', `/products?access_token=${secret('query')}&q=${secret('q')}`, { cookie: `_session=${secret('cookie')}` }],
      ['GET', '/products', { authorization: `Bearer ${secret('bearer')}`, 'x-api-key': secret('key') }],
      ['POST', '/products', json, `{"name": "${secret('json')}`],
      ['POST', '/oauth/token', { ...form, ...basic('boot', secret('wrong')) }, passwordGrant],
      ['POST', '/oauth/token', form, `grant_type=authorization_code&code=${secret('code')}&client_id=boot`],
      ['GET', `/oauth/authorize?client_id=boot&state=${secret('state')}&code_challenge=${secret('challenge')}`],
      ['POST', '/oauth/revoke', { ...form, ...basic('boot', secret('client')) }, `token=${secret('revoked')}`],
      ['GET', `/invitation?token=${secret('invitation')}`],
      ['GET', `/nothing?code=${secret('code')}`, { 'idempotency-key': secret('key'), referer: `/?${secret('ref')}` }],
    ]
    for (const request of requests) await send(...request)
    await eventually('the failed call is logged', async () => service.stdout().includes('webhook call failed'), 20_000)
    service.child.kill('SIGTERM')
    const { code, stdout, stderr } = await ended(service)
    remove()
    assert.equal(code, 0)
    const output = stdout + stderr
    const [, webhookSecret = ''] = /(whsec_\S+?)"/.exec(hook.text) ?? []
    for (const text of [planted, token.slice(-40), webhookSecret]) assert.ok(!output.includes(text), text)
    const messages = output.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line).msg] : []))
    for (const expected of [
      ...['master key created', 'migration applied', 'signing key created'],
      ...['webhook key created', 'service started', 'rate-limit store unavailable', 'webhook call failed'],
      ...['request completed', 'service stopping', 'service stopped'],
    ]) {
      assert.ok(messages.includes(expected), expected)
    }
    assert.equal(messages.at(-1), 'service stopped')
  })

  it('does not contain the password of a database that cannot be reached', async () => {
    const { env, remove } = await newPlace()
    const url = `postgres://plinth:${secret('db')}@127.0.0.1:1/plinth`
    const { code, stdout, stderr } = await ended(plinth(['serve'], { ...env, DATABASE_URL: url }))
    remove()
    assert.equal(code, 1)
    assert.match(stderr, /ECONNREFUSED/)
    assert.ok(!(stdout + stderr).includes(planted))
  })
})

describe('T-OPS-02 an error in the log', () => {
  const line = (error: unknown, secrets: string[] = []) =>
    redactor(secrets)(JSON.stringify({ err: errorFields(error), msg: 'job failed' }))

  it('has its type, message, cause and known properties (such as severity and table), but no other driver properties', () => {
    const cause = Object.assign(new Error('connection lost'), { code: 'ECONNRESET', syscall: 'read' })
    const error = Object.assign(new Error('duplicate key', { cause }), {
      ...{ code: '23505', severity: 'ERROR', table: 'users', constraint: 'users_email', detail: secret('detail') },
      ...{ command: { name: 'auth', args: [secret('redis')] }, query: secret('query'), input: secret('input') },
      ...{ $metadata: { httpStatusCode: 403 }, StringToSign: secret('signed'), config: { password: secret('smtp') } },
    })
    const { err } = JSON.parse(line(error))
    assert.deepEqual(
      [err.type, err.message, err.code, err.severity, err.table, err.constraint, err.status],
      ['Error', 'duplicate key', '23505', 'ERROR', 'users', 'users_email', 403],
    )
    assert.deepEqual([err.cause.message, err.cause.code, err.cause.syscall], ['connection lost', 'ECONNRESET', 'read'])
    assert.ok(!line(error).includes(planted))
  })

  it('from Node.js about an invalid URL does not contain the password in the URL', () => {
    try {
      new URL(`postgres://plinth:${secret('db')}@bad host/`)
      assert.fail('the URL is valid')
    } catch (error) {
      assert.ok(!line(error).includes(planted))
    }
  })

  it('contains no text that has the form of a credential', () => {
    for (const text of [
      `cannot reach postgres://plinth:${secret('db')}@db.example/plinth`,
      `refused Authorization: Bearer ${secret('bearer')}`,
      `refused Basic ${Buffer.from(secret('basic')).toString('base64')}${planted}`,
      `whsec_${planted}${'A'.repeat(30)} and plk_${planted}${'A'.repeat(40)}`,
      `eyJhbGciOiJSUzI1NiJ9.${planted}.${planted}`,
      `POST client_secret=${secret('x')}&code=${secret('y')}&refresh_token=${secret('z')} password=${secret('p')}`,
    ]) {
      const written = line(new Error(text))
      assert.ok(!written.includes(planted), written)
      assert.equal(JSON.parse(written).msg, 'job failed')
    }
  })

  it('contains no secret from the settings, percent-encoded or not, and remains valid JSON', () => {
    const secrets = ['pass "pl4nted" word', 'pl4nted/ü?']
    const text = `a ${secrets[0]} b ${secrets[1]} c ${encodeURIComponent(secrets[1] as string)} d`
    const { err } = JSON.parse(line(new Error(text), secrets))
    assert.equal(err.message, 'a … b … c … d')
  })

  it('can be any thrown value', () => {
    assert.deepEqual(errorFields('text'), { type: 'string', message: 'text' })
    assert.deepEqual(errorFields({ code: 'timeout', secret: planted }), { type: 'object', message: 'timeout' })
    assert.equal(errorFields(new AggregateError([new Error('one')], 'all')).errors?.[0]?.message, 'one')
  })
})
