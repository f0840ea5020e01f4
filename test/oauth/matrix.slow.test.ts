import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { authorizationServer } from '../../src/oauth/provider/provider.ts'
import { apiScopes as guarding } from '../../src/oauth/tokens/scopes.ts'
import { tokenVerifier } from '../../src/oauth/tokens/verify.ts'
import type { Database } from '../../src/storage/database.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { type LiveRoute, liveRoutes } from '../support/live-routes.ts'
import { attacks, fields, keys, own, signed, start } from './forgery.ts'
import { addBackup, addJobRow, type Fixtures, matrix, type Row } from './matrix.ts'
import { issuer, persons, sealer } from './support.ts'

type Caller = 'owner' | 'other' | 'admin' | 'none' | 'scopeless' | 'expired' | 'tampered'
const callers: Caller[] = ['owner', 'other', 'admin', 'none', 'scopeless', 'expired', 'tampered']
const apiScopes = guarding(builtIn.scopes)
const ordinary = apiScopes.filter((scope) => scope !== 'admin' && scope !== 'audit:read').join(' ')

const rowOf = ({ method, url }: LiveRoute): Row | undefined =>
  matrix[`${method === 'HEAD' ? 'GET' : method} ${url.replace(/^\/v\d+\//, '/')}`]

function expectedOf(row: Row, caller: Caller): number {
  if (caller === 'expired' || caller === 'tampered') return row.wrong ?? 401
  if (caller === 'none') return row.none ?? 401
  return caller === 'scopeless' ? (row.scopeless ?? 403) : row[caller]
}

/**
 * Each caller requests only a third of the routes under a version prefix, because they require the same scopes as those
 * without a prefix (test/openapi/openapi.slow.test.ts). Full checks are requested only without a prefix: a second one
 * gets a 409 while the first is running.
 */
const isAsked = ({ url }: LiveRoute, at: number, caller: Caller) =>
  !/^\/v\d+\//.test(url) || (at % 3 === callers.indexOf(caller) % 3 && !/\/(verification|examination)$/.test(url))

/** Callers that most routes reject before running any SQL, so that testing them on one engine is enough. */
const refusedAtOnce: readonly Caller[] = ['scopeless', 'expired', 'tampered']

forEachEngine((engine) => {
  let db: Database
  let service: TestApp
  let tokens: Record<Caller, string | null>
  before(async () => {
    db = await engine.database()
    const now = () => start
    const fixed = { issuer, audience: issuer, db, now }
    const jwk = { ...own.privateKey.export({ format: 'jwk' }), kid: 'own', alg: 'RS256', use: 'sig' }
    const signing = { jwks: { keys: [jwk] }, cookieKeys: ['c'.repeat(43)], publicKeys: keys.publicKeys }
    const { login, frame } = persons(db)
    const options = {
      ...{ login, frame, address: () => '127.0.0.1' },
      ...fixed,
      scopes: builtIn.scopes,
      sealer,
      keys: signing,
      accessTokenSeconds: 900,
      report: () => {},
    }
    const provider = authorizationServer(options)
    const verify = tokenVerifier({ ...fixed, keys })
    const env = { PLINTH_MASTER_KEY: '07'.repeat(32) }
    service = await testApp(db, { verify, provider: { current: provider }, baseUrl: issuer, now, sealer, env })
    for (const id of ['alpha', 'beta', 'gamma']) {
      const scopes = [...apiScopes, 'openid']
      await createClient(db, sealer, builtIn.scopes, { id, name: id, scopes, grants: ['client_credentials'] })
    }
    const of = (id: string, scope: string) => signed({ sub: id, client_id: id, scope, jti: `${id} ${scope}` })
    const owner = await of('alpha', ordinary)
    const [header, , signature] = owner.split('.')
    const raised = Buffer.from(JSON.stringify({ ...fields, scope: apiScopes.join(' ') })).toString('base64url')
    tokens = {
      owner,
      other: await of('beta', ordinary),
      admin: await of('gamma', apiScopes.join(' ')),
      none: null,
      scopeless: await of('alpha', 'openid'),
      expired: await signed({ scope: ordinary, exp: start / 1_000 - 31 }),
      tampered: `${header}.${raised}.${signature}`,
    }
  })
  after(async () => {
    // Ignore errors caused by closing the database.
    const faults = [...service.faults]
    await service.app.close()
    await db.close()
    assert.deepEqual(faults, [])
  })

  const send = (method: string, url: string, token: string | null, payload?: object) =>
    service.send({
      ...{ method: method as 'GET', url, scopes: null },
      ...(token !== null && { token }),
      ...(payload && { payload }),
    })
  let count = 0
  const make = async (url: string, body: object, by: Caller = 'owner') => {
    const response = await send('POST', url, tokens[by], body)
    assert.ok(response.statusCode === 201 || response.statusCode === 202, response.body)
    return response.json()
  }
  /** Creates a report. Ends earlier reports first, because the number of pending reports per client is limited. */
  const task = async (): Promise<string> => {
    await db.write((tx) => tx.updateTable('tasks').set({ status: 'failed' }).where('status', '=', 'pending').execute())
    return (await make('/api/reports', { reportType: 'products', format: 'csv' })).taskId
  }
  /** Creates a webhook. Deletes earlier webhooks first, because the number of webhooks per owner is limited. */
  const webhook = async (): Promise<string> => {
    await db.write((tx) => tx.deleteFrom('webhooks').where('ownerClient', '=', 'alpha').execute())
    return (await make('/api/webhooks', { event: '*', callbackUrl: `http://127.0.0.1:9/made${++count}` })).id
  }
  const deleted = async (path: string, id: number): Promise<number> => {
    const response = await send('DELETE', `${path}/${id}`, tokens.owner)
    assert.equal(response.statusCode, 204, response.body)
    return id
  }
  const pathOf = (url: string, id: string | number | string[]) =>
    [id].flat().reduce((path: string, one) => path.replace(/:\w+/, String(one)), url)
  const fixtures: Fixtures = {
    fresh: () => ++count,
    user: async () => (await make('/users', { name: 'Some', email: `made${++count}@example.com` })).id,
    product: async () => (await make('/products', { name: 'Thing', price: 1 })).id,
    book: async () => (await make('/books', { title: 'Book', author: 'Some' })).id,
    deletedProduct: async () => deleted('/products', await fixtures.product()),
    deletedBook: async () => deleted('/books', await fixtures.book()),
    task,
    endedTask: async () => {
      const taskId = await task()
      await send('POST', `/api/reports/${taskId}/cancel`, tokens.owner)
      return taskId
    },
    webhook,
    delivery: async () => {
      const id = await webhook()
      return [id, (await make(`/api/webhooks/${id}/test`, {})).id]
    },
    client: async () => {
      const body = { name: 'Made', scopes: ['reports:read'], grants: ['client_credentials'] }
      return (await make('/api/clients', body, 'admin')).id
    },
    key: async () => (await make('/api/keys', { name: 'Made' }, 'admin')).id,
    backup: () => addBackup(db, ++count),
    job: () => addJobRow(db, ++count, 'waiting'),
    failedJob: () => addJobRow(db, ++count, 'failed'),
  }
  const request = async ({ method, url }: LiveRoute, row: Row, caller: Caller) => {
    const id = row.id ? await row.id(fixtures) : ''
    const path = pathOf(url, id)
    return { path, response: await send(method, path, tokens[caller], row.body?.(fixtures)) }
  }

  describe('the authorization matrix (T-API-01)', () => {
    it('has a row for every live route, and no row without a route', () => {
      const live = liveRoutes(service.app)
      assert.deepEqual(
        live.filter((route) => rowOf(route) === undefined),
        [],
        'add a row to test/oauth/matrix.ts',
      )
      const known = new Set(live.map(rowOf))
      assert.deepEqual(
        Object.keys(matrix).filter((name) => !known.has(matrix[name])),
        [],
        'no such route',
      )
      assert.ok(live.length > 120, String(live.length))
    })

    for (const caller of callers.filter((one) => engine.name === 'sqlite' || !refusedAtOnce.includes(one))) {
      it(`every route returns the status in its row for the caller: ${caller}`, async () => {
        const wrong: string[] = []
        for (const [at, route] of liveRoutes(service.app).entries()) {
          const row = rowOf(route)
          if (row === undefined || !isAsked(route, at, caller)) continue
          const { path, response } = await request(route, row, caller)
          const expected = expectedOf(row, caller)
          if (response.statusCode !== expected) {
            wrong.push(`${route.method} ${path}: ${response.statusCode} instead of ${expected}`)
          }
          if (response.statusCode === 401 && !response.headers['www-authenticate']) wrong.push(`${path}: no challenge`)
        }
        assert.deepEqual(wrong, [])
      })
    }

    it('404 for another owner’s resources, identical to the response for unknown resources', async () => {
      const varying = /"(requestId|timestamp|instance)":"[^"]*"/g
      let compared = 0
      for (const route of liveRoutes(service.app)) {
        const row = rowOf(route)
        if (row?.missing === undefined) continue
        const { response } = await request(route, row, 'other')
        const none = await send(route.method, pathOf(route.url, row.missing), tokens.other, row.body?.(fixtures))
        assert.equal(response.body.replace(varying, ''), none.body.replace(varying, ''), `${route.method} ${route.url}`)
        assert.deepEqual(Object.keys(response.headers), Object.keys(none.headers))
        assert.equal(none.statusCode, 404)
        compared++
      }
      assert.ok(compared >= 12, String(compared))
    })

    it('GET /api/reports lists only the caller’s own reports, even for an administrator', async () => {
      const task = await fixtures.task()
      for (const [caller, sees] of [
        ['owner', true],
        ['other', false],
        ['admin', false],
      ] as const) {
        const response = await send('GET', '/api/reports?limit=200', tokens[caller])
        assert.equal(response.body.includes(task), sees, caller)
      }
    })

    it('403 outside the administration routes with only the admin scope; 200 for the audit log with only audit:read', async () => {
      const admin = await signed({ sub: 'gamma', client_id: 'gamma', scope: 'admin', jti: 'admin alone' })
      const task = await fixtures.task()
      for (const path of ['/users', '/api/reports', `/api/reports/${task}`, '/api/webhooks']) {
        assert.equal((await send('GET', path, admin)).statusCode, 403, path)
      }
      const auditor = await signed({ scope: 'audit:read', jti: 'auditor' })
      assert.equal((await send('GET', '/api/audit', auditor)).statusCode, 200)
      assert.equal((await send('GET', '/api/clients', auditor)).statusCode, 403)
    })
  })

  /** One route for each kind of authorization requirement. */
  const classes = ['/users', '/api/reports', '/api/webhooks', '/api/clients', '/api/audit', '/api/event-types']
  const writes: [method: string, path: string][] = [
    ['POST', '/users'],
    ['DELETE', '/products/1'],
    ['PUT', '/books/1'],
    ['POST', '/api/reports'],
    ['POST', '/api/webhooks'],
    ['PATCH', '/api/keys/x'],
    ['GET', '/products'],
  ]
  const protectedClasses = [...classes.map((path): [string, string] => ['GET', path]), ...writes]

  describe('401 from every kind of protected route', () => {
    const listed = Object.entries(attacks)
    it(`for each of ${listed.length} invalid tokens (T-JWT-01 … T-JWT-09)`, async () => {
      for (const [attack, forged] of listed) {
        const token = await forged()
        // An empty token counts as absent, and an overlong token exceeds the header size limit.
        if (token === '' || token.length > 12_000) continue
        for (const [method, path] of protectedClasses) {
          const response = await send(method, path, token)
          const where = `${attack} at ${method} ${path}`
          assert.equal(response.statusCode, 401, where)
          const code = response.json().errorCode
          assert.ok(code === 'AUTH_TOKEN_INVALID' || code === 'AUTH_TOKEN_EXPIRED', where)
          assert.equal(response.headers['www-authenticate'], 'Bearer realm="plinth", error="invalid_token"', where)
          assert.equal(response.headers['cache-control'], 'no-store')
        }
      }
    })

    it('T-JWT-10 for a token in the query, in the body or in a cookie', async () => {
      const good = String(tokens.admin)
      for (const [method, path] of protectedClasses.filter(([, path]) => path !== '/products')) {
        const sent = { method: method as 'GET', scopes: null }
        const payload = method === 'GET' || method === 'DELETE' ? {} : { payload: { access_token: good } }
        const tries = [
          { ...sent, url: `${path}?access_token=${good}` },
          { ...sent, ...payload, url: path },
          { ...sent, url: path, headers: { cookie: `access_token=${good}` } },
        ]
        for (const each of tries) {
          const response = await service.send(each)
          assert.deepEqual([response.statusCode, response.json().errorCode], [401, 'AUTH_REQUIRED'], each.url)
        }
      }
    })

    it('T-JWT-10 400 instead for a token in both the header and the query', async () => {
      const response = await send('GET', `/users?access_token=${tokens.owner}`, tokens.owner)
      assert.deepEqual([response.statusCode, response.json().errorCode], [400, 'INVALID_INPUT'])
      assert.match(String(response.headers['www-authenticate']), /error="invalid_request"/)
    })
  })

  it('every page has a strict Content-Security-Policy and no inline script', async () => {
    const pages: string[] = []
    for (const { method, url } of liveRoutes(service.app).filter(({ method }) => method === 'GET')) {
      const path = url.replace(':code', 'auth-required').replace(/:\w+/g, '1')
      const headers = { accept: 'text/html,*/*;q=0.8' }
      const response = await service.send({ method: method as 'GET', url: path, scopes: null, headers })
      if (!String(response.headers['content-type']).startsWith('text/html')) continue
      pages.push(url)
      const policy = String(response.headers['content-security-policy'])
      for (const part of ["default-src 'none'", "base-uri 'none'", 'form-action ', "frame-ancestors 'none'"]) {
        assert.ok(
          policy.split('; ').some((one) => one.startsWith(part)),
          `${part} at ${url}: ${policy}`,
        )
      }
      assert.doesNotMatch(policy, /script-src [^;]*('unsafe|'sha)/, url)
      assert.doesNotMatch(response.body, /<script(?! src="\/docs\/)/, url)
    }
    assert.deepEqual(pages.sort(), [
      ...['/', '/docs', '/oauth/authorize', '/oauth/authorize/:uid', '/oauth/interaction/:uid', '/oauth/invitation'],
      ...['/oauth/logout', '/oauth/logout/success', '/problems', '/problems/:code'],
    ])
  })

  it('the audit log has one entry for the first denied request and one that counts its repetitions, but never the token', async () => {
    const watched = await openDatabase(db.url)
    const denied = watched.read.selectFrom('auditEntries').selectAll().where('event', '=', 'access.denied')
    await service.audit.flush()
    const last = (await denied.orderBy('sequence', 'desc').executeTakeFirst())?.sequence ?? 0
    for (let n = 0; n < 3; n++) await send('GET', '/api/clients', tokens.other)
    await service.audit.flush()
    const found = await denied.where('sequence', '>', last).orderBy('sequence').execute()
    assert.deepEqual(
      found.map(({ clientId, target, details }) => [clientId, target, JSON.parse(String(details))]),
      [{ errorCode: 'ACCESS_DENIED' }, { errorCode: 'ACCESS_DENIED', more: 2 }].map((details) => [
        ...['beta', 'GET /api/clients'],
        details,
      ]),
    )
    const everything = JSON.stringify(await watched.read.selectFrom('auditEntries').selectAll().execute())
    assert.ok(!everything.includes(String(tokens.other).slice(-40)))
    await watched.close()
  })
})
