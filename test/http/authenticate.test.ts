import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { callerOf, type TokenVerification } from '../../src/http/policies/authenticate.ts'
import { type Mounted, mount, send, verify } from './support.ts'

const config = { scope: 'public' }

describe('the authenticate policy', () => {
  let mounted: Mounted
  let asked: string[]
  const remembering = (token: string): TokenVerification | Promise<TokenVerification> => {
    asked.push(token)
    if (token === 'down') return Promise.reject(new Error('the store is down'))
    return token.startsWith('slow-') ? Promise.resolve(verify(token.slice(5))) : verify(token)
  }
  before(async () => {
    const routes: Parameters<typeof mount>[1] = (app) => {
      app.get('/who', { config }, async ({ caller }) => ({ caller: show(caller) }))
      app.get('/required', { config }, async (request) => ({ client: callerOf(request).clientId }))
    }
    mounted = await mount(['errorHandler', 'authenticate'], routes, { verify: remembering })
  })
  after(() => mounted.app.close())

  const show = (caller: TokenVerification | null) =>
    caller && 'caller' in caller ? { ...caller.caller, scopes: [...caller.caller.scopes] } : caller
  const who = async (authorization?: string, url = '/who') => {
    asked = []
    const answer = await send(mounted, { url, headers: authorization === undefined ? {} : { authorization } })
    assert.equal(answer.statusCode, 200)
    return answer.json().caller
  }
  const reader = { clientId: 'cli_reader', subject: 'usr_1', scopes: ['things:read'] }

  it('sets the caller for a valid token, whether it is verified synchronously or asynchronously', async () => {
    assert.deepEqual(await who('Bearer reader'), reader)
    assert.deepEqual(await who('Bearer slow-reader'), reader)
  })

  it('accepts the Bearer scheme in upper or lower case, followed by several spaces (RFC 9110 §11.1)', async () => {
    for (const header of ['bearer reader', 'BEARER   reader']) assert.deepEqual(await who(header), reader)
  })

  it('sets the caller to null without Authorization', async () => {
    assert.equal(await who(), null)
    assert.deepEqual(asked, [])
  })

  it('lets a request with a rejected token continue, but records the reason', async () => {
    assert.deepEqual(await who('Bearer expired'), { refused: 'AUTH_TOKEN_EXPIRED' })
    assert.deepEqual(await who('Bearer slow-expired'), { refused: 'AUTH_TOKEN_EXPIRED' })
    assert.deepEqual(await who('Bearer unknown'), { refused: 'AUTH_TOKEN_INVALID' })
  })

  it('records a malformed token as invalid', async () => {
    for (const header of [
      'Bearer a b',
      'Bearer reader,writer',
      'Bearer "reader"',
      'bearer \u00e4',
      'Bearer Bearer reader',
    ]) {
      assert.deepEqual(await who(header), { refused: 'AUTH_TOKEN_INVALID' }, header)
    }
  })

  it('ignores Authorization without a Bearer token: the caller is null and nothing is verified', async () => {
    for (const header of ['Basic cmVhZGVyOng=', 'reader', 'Bearerreader', 'Bearer', '']) {
      assert.equal(await who(header), null, header)
      assert.deepEqual(asked, [], header)
    }
  })

  it('ignores tokens in the query, cookies and other headers (T-JWT-10)', async () => {
    assert.equal(await who(undefined, '/who?access_token=reader'), null)
    const headers = {
      cookie: 'access_token=reader',
      'x-access-token': 'reader',
      'proxy-authorization': 'Bearer reader',
    }
    assert.equal((await send(mounted, { url: '/who', headers })).json().caller, null)
    assert.deepEqual(asked, [])
  })

  it('responds with 500 if verification itself fails, because the token may be valid', async () => {
    const answer = await send(mounted, { url: '/who', token: 'down' })
    assert.equal(answer.statusCode, 500)
    assert.match(String(mounted.faults.at(-1)), /the store is down/)
  })

  it('responds with 500 if a route requires a caller but the request has no token', async () => {
    assert.equal((await send(mounted, { url: '/required', token: 'reader' })).json().client, 'cli_reader')
    assert.equal((await send(mounted, { url: '/required' })).statusCode, 500)
  })

  it('does not leak the caller to the next request', async () => {
    await who('Bearer reader')
    assert.equal(await who(), null)
  })
})
