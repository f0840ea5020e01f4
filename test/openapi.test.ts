import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import type { LightMyRequestResponse as Answer, InjectOptions } from 'fastify'
import { createClient } from '../src/auth/clients.ts'
import { signingKeys } from '../src/auth/keys.ts'
import { authorizationServer } from '../src/auth/server.ts'
import { builtIn } from '../src/built-in.ts'
import type { Database } from '../src/db/open.ts'
import { sealer } from '../src/db/seal.ts'
import { type TestApp, testApp } from './support/app.ts'
import { onSqlite } from './support/engines.ts'

/** A document is read by its paths. */
type Json = ReturnType<typeof JSON.parse>

const place = new URL('../openapi.json', import.meta.url)
const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
const baseUrl = 'https://localhost:8443'
const seal = sealer(Buffer.alloc(32, 1), randomBytes)
const methods = ['get', 'put', 'post', 'delete', 'patch']

/** Live routes that are meant for browsers and OpenID Connect clients, which follow links and discovery. */
const leftOut = [
  'GET /oauth/authorize/{uid}',
  'GET /oauth/logout',
  'GET /oauth/logout/success',
  'POST /oauth/logout/confirm',
  'GET /oauth/userinfo',
  'POST /oauth/userinfo',
]

onSqlite((engine) => {
  let db: Database
  let service: TestApp
  let document: Json
  let ajv: Ajv2020
  before(async () => {
    db = await engine.database()
    service = await testApp(db, (await production(db)) as object)
    document = (await service.send({ url: '/openapi.json', scopes: null })).json()
    // Binary fractions: 24.5 is not a multiple of 0.01 to the last bit.
    ajv = formats.default(new Ajv2020({ strict: false, allErrors: true, multipleOfPrecision: 6 }))
    ajv.addSchema({ ...document, $id: 'openapi.json' })
  })
  after(async () => {
    await service.app.close()
    await db.close()
  })

  const operations = (): { path: string; method: string; operation: Json }[] =>
    Object.entries<Json>(document.paths).flatMap(([path, item]) =>
      methods.filter((method) => item[method]).map((method) => ({ path, method, operation: item[method] })),
    )
  const at = (pointer: string): Json =>
    pointer
      .slice(2)
      .split('/')
      .reduce((value: Json, part) => value?.[part.replaceAll('~1', '/').replaceAll('~0', '~')], document)
  const resolve = (value: Json): Json => (value.$ref ? at(value.$ref) : value)
  const check = (schema: Json, value: unknown, where: string) => {
    const validate = ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"openapi.json#/')))
    assert.ok(validate(value), `${where}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(value)}`)
  }

  describe('GET /openapi.json', () => {
    it('200 for everybody, and kept by caches', async () => {
      const answer = await service.send({ url: '/openapi.json', scopes: null })
      assert.equal(answer.statusCode, 200)
      assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8')
      assert.match(String(answer.headers['cache-control']), /^public, max-age=/)
      const headers = { 'if-none-match': String(answer.headers.etag) }
      assert.equal((await service.send({ url: '/openapi.json', headers, scopes: null })).statusCode, 304)
    })

    it('is the committed openapi.json', () => {
      const text = `${JSON.stringify(document, null, 2)}\n`
      if (process.env.UPDATE === '1') writeFileSync(place, text)
      const same = readFileSync(place, 'utf8') === text
      assert.ok(
        same,
        'openapi.json is out of date: run `UPDATE=1 node --test test/openapi.test.ts` and look at the diff',
      )
    })
  })

  describe('the document', () => {
    it('has every live route once, but for pages and OpenID Connect', () => {
      const documented = operations().map(({ path, method }) => `${method.toUpperCase()} ${path}`)
      const live = liveRoutes(service.app.printRoutes({ commonPrefix: false }))
      const bare = new Set(live.map((route) => route.replace(' /v1/', ' /')))
      assert.deepEqual(documented.sort(), [...bare].filter((route) => !leftOut.includes(route)).sort())
      assert.deepEqual(
        leftOut.filter((route) => !bare.has(route)),
        [],
        'left out, but not live',
      )
    })

    it('has every operation live under every server it names', () => {
      for (const { path, method } of operations()) {
        for (const { url } of document.paths[path].servers ?? document.servers) {
          const route = { method: method.toUpperCase(), url: new URL(url).pathname.replace(/\/$/, '') + path }
          const live = service.app.hasRoute({ ...route, url: route.url.replace(/\{(\w+)\}/g, ':$1') } as never)
          assert.ok(live, JSON.stringify(route))
        }
      }
    })

    it('names the paths as the contract does', () => {
      for (const path of ['/users/{id}', '/products/{id}', '/books/{id}', '/api/reports/{taskId}/status']) {
        assert.ok(document.paths[path], path)
      }
      assert.deepEqual(document.servers, [{ url: baseUrl }, { url: `${baseUrl}/v1` }])
      assert.deepEqual(Object.keys(document.webhooks), Object.keys(builtIn.events))
    })

    it('consists of what OpenAPI 3.1 knows', () => {
      checkFields(document, 'document')
      assert.match(document.openapi, /^3\.1\.\d$/)
    })

    it('has no key of the framework and no schema without a meaning', () => {
      for (const key of ['querystring', 'patternProperties', '~kind', '~optional', 'config']) {
        assert.ok(!JSON.stringify(document).includes(`"${key}":`), key)
      }
    })

    it('refers only to what is there, and has nothing that is not referred to', () => {
      const used = new Set<string>()
      walk(document, (value) => typeof value.$ref === 'string' && used.add(value.$ref))
      for (const ref of used) assert.ok(at(ref), ref)
      for (const kind of ['schemas', 'responses', 'parameters', 'headers']) {
        for (const name of Object.keys(document.components[kind])) {
          assert.ok(used.has(`#/components/${kind}/${name}`), `${kind}/${name} is not used`)
          assert.match(name, /^[a-zA-Z0-9._-]+$/)
        }
      }
    })

    it('has a unique operationId, a summary, a tag and a success for each operation', () => {
      const hooks = Object.values<Json>(document.webhooks).map(({ post }) => post)
      const ids = [...operations().map(({ operation }) => operation), ...hooks].map(
        (operation) => operation.operationId,
      )
      assert.deepEqual(
        ids.filter((id, index) => ids.indexOf(id) !== index),
        [],
      )
      for (const { operation, path, method } of operations()) {
        assert.match(operation.operationId, /^[a-z][A-Za-z0-9]*$/)
        assert.ok(operation.summary && operation.tags.length > 0, `${method} ${path}`)
        assert.ok(
          Object.keys(operation.responses).some((status) => /^[23]/.test(status)),
          `${method} ${path}`,
        )
      }
    })

    it('declares each parameter once, and those of the path as the path writes them', () => {
      for (const { operation, path, method } of operations()) {
        const parameters = (operation.parameters ?? []).map(resolve)
        const keys = parameters.map(({ name, in: where }: Json) => `${where} ${name}`)
        assert.equal(new Set(keys).size, keys.length, `${method} ${path}`)
        const ofPath = parameters.filter((parameter: Json) => parameter.in === 'path')
        assert.ok(ofPath.every((parameter: Json) => parameter.required === true))
        const written = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
        assert.deepEqual(ofPath.map(({ name }: Json) => name).sort(), written.sort(), `${method} ${path}`)
      }
      assert.equal(resolve(document.paths['/users/{id}'].get.parameters[0]).schema.type, 'integer')
    })

    it('demands only schemes and scopes that it declares', () => {
      const schemes = document.components.securitySchemes
      for (const { operation, path } of operations()) {
        for (const requirement of operation.security as Json[]) {
          for (const [scheme, scopes] of Object.entries<string[]>(requirement)) {
            const known = Object.keys(schemes[scheme].flows?.clientCredentials.scopes ?? {})
            assert.deepEqual(
              scopes.filter((scope) => !known.includes(scope)),
              [],
              path,
            )
          }
        }
      }
      assert.equal(schemes.oauth2.flows.clientCredentials.tokenUrl, `${baseUrl}/oauth/token`)
      assert.deepEqual(document.paths['/books'].get.security, [{}, { oauth2: [] }])
      assert.deepEqual(document.paths['/books'].post.security, [{ oauth2: ['books:write'] }])
    })

    it('has schemas that compile and examples that they allow', () => {
      let examples = 0
      const see = (schema: Json, values: unknown[], where: string) => {
        check(schema, values[0], where)
        for (const value of values.slice(1)) check(schema, value, where)
        examples += values.length
      }
      walk(document, (value, where) => {
        if (Array.isArray(value.examples)) see(value, value.examples, where)
        else if (value.examples && value.schema) {
          see(
            value.schema,
            Object.values<Json>(value.examples).map((example) => example.value),
            where,
          )
        } else if (value.schema)
          ajv.compile(JSON.parse(JSON.stringify(value.schema).replaceAll('"#/', '"openapi.json#/')))
      })
      for (const name of Object.keys(document.components.schemas))
        ajv.getSchema(`openapi.json#/components/schemas/${name}`)
      assert.ok(examples > 60, String(examples))
    })

    it('has an example of each object', () => {
      for (const [name, schema] of Object.entries<Json>(document.components.schemas)) {
        if (['ErrorCode', 'Problem', 'CodeError'].includes(name)) continue
        assert.ok(schema.examples?.length > 0, name)
      }
    })

    it('tells that a merge patch may remove what may be absent', () => {
      const { content } = document.paths['/users/{id}'].patch.requestBody
      assert.deepEqual(Object.keys(content), ['application/merge-patch+json', 'application/json'])
      const { schema } = content['application/merge-patch+json']
      check(schema, { phone: null }, 'UserPatch')
      assert.throws(() => check(schema, { email: null }, 'UserPatch'))
    })

    it('is as sound without the authorization server and without the API', async () => {
      for (const settings of [{ provider: null }, { api: false }] as object[]) {
        const other = await testApp(db, { ...settings })
        const smaller = (await other.send({ url: '/openapi.json', scopes: null })).json()
        walk(smaller, ({ $ref }) => {
          if ($ref) assert.ok(smaller.components[$ref.split('/')[2]][$ref.split('/')[3]], $ref)
        })
        assert.ok(!('/oauth/token' in smaller.paths) && '/livez' in smaller.paths)
        await other.app.close()
      }
    })
  })

  describe('answers are as documented', () => {
    const json = { 'content-type': 'application/json' }
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const product = { name: 'Lamp', price: 24.5 }
    const user = { name: 'Ada', email: 'ada@example.com', phone: '+1' }
    const report = { reportType: 'books', format: 'csv' }
    const hook = { event: 'report.completed', callbackUrl: 'http://127.0.0.1:9/hook' }
    const post = (url: string, payload: unknown, more: object = {}) =>
      ({ method: 'POST', url, payload, headers: json, ...more }) as Request
    let credentials: string
    let ids: Record<string, string>
    before(async () => {
      const client = { name: 'Machine', scopes: ['reports:read'], grants: ['client_credentials'] }
      const created = await createClient(db, seal, builtIn.scopes, client)
      credentials = `client_id=${created.client.id}&client_secret=${created.secret}`
      await service.send(post('/users', user))
      await service.send(post('/products', product))
      ids = {
        task: (await service.send(post('/api/reports', report))).json().taskId,
        webhook: (await service.send(post('/api/webhooks', hook))).json().id,
      }
    })

    type Request = InjectOptions & { scopes?: string | null; token?: string }
    const cases: [status: number, path: string, request: () => Request][] = [
      [200, '/livez', () => ({})],
      [200, '/readyz', () => ({ scopes: null })],
      [401, '/livez', () => ({ token: 'expired' })],
      [200, '/openapi.json', () => ({})],
      [200, '/problems/{code}', () => ({ url: '/problems/auth-required' })],
      [200, '/problems/{code}', () => ({ url: '/problems/auth-required', headers: { accept: 'application/json' } })],
      [404, '/problems/{code}', () => ({ url: '/problems/none' })],
      [200, '/.well-known/webhook-keys.json', () => ({})],
      [200, '/users', () => ({ url: '/users?fields=name&limit=1', headers: { prefer: 'count=exact' } })],
      [400, '/users', () => ({ url: '/users?limit=x' })],
      [401, '/users', () => ({ scopes: null })],
      [401, '/users', () => ({ token: 'invalid' })],
      [403, '/users', () => ({ scopes: 'books:write' })],
      [201, '/users', () => post('/users', { ...user, email: 'bob@example.com' })],
      [400, '/users', () => post('/users', { name: 1 })],
      [400, '/users', () => post('/users', { name: 'Ada' })],
      [409, '/users', () => post('/users', user)],
      [413, '/users', () => post('/users', { name: 'x'.repeat(1_100_000) })],
      [415, '/users', () => post('/users', 'x', { headers: { 'content-type': 'text/plain' } })],
      [406, '/users', () => ({ headers: { accept: 'text/html' } })],
      [422, '/users', () => post('/users', { ...user, email: 'no' })],
      [
        422,
        '/users',
        () => post('/users', { ...user, email: 'no' }, { headers: { ...json, accept: 'application/json' } }),
      ],
      [200, '/users/{id}', () => ({ url: '/users/1' })],
      [304, '/users/{id}', () => ({ url: '/users/1', headers: { 'if-none-match': '*' } })],
      [400, '/users/{id}', () => ({ url: '/users/one' })],
      [404, '/users/{id}', () => ({ url: '/v1/users/99' })],
      [200, '/users/{id}', () => ({ method: 'PATCH', url: '/users/1', payload: { phone: null } })],
      [409, '/users/{id}', () => ({ method: 'PATCH', url: '/users/1', payload: { email: 'bob@example.com' } })],
      [200, '/products', () => ({ scopes: null })],
      [200, '/products/{id}', () => ({ method: 'PUT', url: '/products/1', payload: product })],
      [412, '/products/{id}', () => ({ method: 'DELETE', url: '/products/1', headers: { 'if-match': '"99"' } })],
      [204, '/products/{id}', () => ({ method: 'DELETE', url: '/products/1' })],
      [202, '/api/reports', () => post('/api/reports', report)],
      [422, '/api/reports', () => post('/api/reports', { ...report, webhookUrl: 'http://10.0.0.1/' })],
      [200, '/api/reports', () => ({})],
      [200, '/api/report-types', () => ({})],
      [200, '/api/reports/{taskId}', () => ({ url: `/api/reports/${ids.task}?fields=status` })],
      [200, '/api/reports/{taskId}/status', () => ({ url: `/v1/api/reports/${ids.task}/status` })],
      [404, '/api/reports/{taskId}/status', () => ({ url: '/api/reports/tsk_none/status' })],
      [409, '/api/reports/{taskId}/download', () => ({ url: `/api/reports/${ids.task}/download` })],
      [200, '/api/webhooks', () => ({})],
      [201, '/api/webhooks', () => post('/api/webhooks', { ...hook, event: '*', description: 'All' })],
      [409, '/api/webhooks', () => post('/api/webhooks', hook)],
      [200, '/api/webhooks/{id}', () => ({ url: `/api/webhooks/${ids.webhook}` })],
      [404, '/api/webhooks/{id}', () => ({ url: '/api/webhooks/none' })],
      [200, '/api/webhooks/{id}/deliveries', () => ({ url: `/api/webhooks/${ids.webhook}/deliveries` })],
      [204, '/api/webhooks/{id}', () => ({ method: 'DELETE', url: `/api/webhooks/${ids.webhook}` })],
      [200, '/api/webhooks/secret', () => ({})],
      [200, '/api/event-types', () => ({})],
      [
        200,
        '/oauth/token',
        () => post('/oauth/token', `grant_type=client_credentials&${credentials}`, { headers: form, scopes: null }),
      ],
      [
        400,
        '/oauth/token',
        () => post('/oauth/token', `grant_type=magic&${credentials}`, { headers: form, scopes: null }),
      ],
      [
        401,
        '/oauth/token',
        () => post('/oauth/token', 'grant_type=client_credentials&client_id=x', { headers: form, scopes: null }),
      ],
      [413, '/oauth/token', () => post('/oauth/token', 'x'.repeat(60_000), { headers: form, scopes: null })],
      [
        200,
        '/oauth/introspect',
        () => post('/oauth/introspect', `token=x&${credentials}`, { headers: form, scopes: null }),
      ],
      [200, '/oauth/revoke', () => post('/oauth/revoke', `token=x&${credentials}`, { headers: form, scopes: null })],
      [
        400,
        '/oauth/authorize',
        () => ({ url: '/oauth/authorize?client_id=x', headers: { accept: 'text/html' }, scopes: null }),
      ],
      [200, '/oauth/jwks', () => ({})],
      [200, '/.well-known/openid-configuration', () => ({})],
      [200, '/.well-known/oauth-authorization-server', () => ({})],
      [200, '/.well-known/oauth-protected-resource', () => ({})],
    ]
    for (const [status, path, request] of cases) {
      it(`${status} at ${path}`, async () => {
        const sent = { url: path, method: 'GET' as const, ...request() }
        const answer = await service.send(sent)
        assert.equal(answer.statusCode, status, answer.body)
        const operation = document.paths[path][sent.method.toLowerCase()]
        const documented = operation.responses[status]
        assert.ok(documented, `${status} is not documented`)
        checkAnswer(answer, documented)
      })
    }

    /** Headers of every answer, which say nothing about an operation. */
    const common =
      /^(strict-transport-security|x-content-type-options|referrer-policy|content-security-policy|cross-origin-.*|content-(type|length)|date|connection|vary|pragma)$/

    function checkAnswer(answer: Answer, documented: Json) {
      const { content, headers = {} } = resolve(documented)
      const known = Object.keys(headers).map((name) => name.toLowerCase())
      const unknown = Object.keys(answer.headers).filter((name) => !common.test(name) && !known.includes(name))
      assert.deepEqual(unknown, [], 'headers that are not documented')
      const [type = ''] = String(answer.headers['content-type'] ?? '').split(';')
      if (answer.body === '') return assert.equal(content, undefined)
      assert.ok(content?.[type], `${type} is not documented`)
      const body = type.endsWith('json') ? answer.json() : answer.body
      check(content[type].schema, body, type)
      if (answer.statusCode >= 400 && body.errorCode && documented.description)
        assert.ok(documented.description.includes(`${body.errorCode}:`))
    }
  })
})

/** What makes the tested app the one that production serves: an authorization server, an address, a release. */
async function production(db: Database) {
  const keys = await signingKeys({ db, sealer: seal, now: Date.now })
  const report = (error: unknown) => assert.fail(String(error))
  const { scopes } = builtIn
  const origin = { issuer: baseUrl, audience: baseUrl }
  const tokens = { ...origin, scopes, db, keys, now: Date.now, sealer: seal, accessTokenSeconds: 900 }
  return { provider: authorizationServer({ ...tokens, report }), baseUrl, version }
}

/** `GET /users/{id}` and so on, from the tree that the framework prints. */
function liveRoutes(tree: string): string[] {
  const parts: string[] = []
  return tree.split('\n').flatMap((line) => {
    const [, indent, part, names = ''] = /^([│ ]*)[├└]── (\S+)(?: \((.*)\))?$/.exec(line) ?? []
    if (indent === undefined || part === undefined) return []
    parts.splice(indent.length / 4, Number.POSITIVE_INFINITY, part)
    const path = parts.join('').replace(/:(\w+)/g, '{$1}')
    const told = names.split(', ').filter((name) => !['', 'HEAD', 'OPTIONS'].includes(name))
    return told.map((name) => `${name} ${path}`)
  })
}

function walk(value: unknown, visit: (value: Json, where: string) => void, where = '#'): void {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value)) visit(value as Json, where)
  // What is inside of an example is data, whatever its names are.
  for (const [key, inner] of Object.entries(value)) if (key !== 'examples') walk(inner, visit, `${where}/${key}`)
}

/** The fields of OpenAPI's objects that we use: those it must have, those it may have, and what is in them. */
const objects: Record<
  string,
  { must: string[]; may?: string[]; lists?: Record<string, string>; maps?: Record<string, string> }
> = {
  document: {
    must: ['openapi', 'info', 'servers', 'tags', 'paths', 'webhooks', 'components'],
    lists: { servers: 'server', tags: 'tag' },
    maps: { paths: 'path', webhooks: 'path' },
  },
  server: { must: ['url'] },
  tag: { must: ['name'], may: ['description'] },
  path: { must: [], may: ['servers', ...methods], lists: { servers: 'server' } },
  operation: {
    must: ['operationId', 'responses', 'summary', 'tags'],
    may: ['description', 'security', 'parameters', 'requestBody'],
    lists: { parameters: 'parameter' },
    maps: { responses: 'response' },
  },
  parameter: { must: ['name', 'in', 'schema'], may: ['description', 'required'] },
  body: { must: ['content'], may: ['required', 'description'], maps: { content: 'media' } },
  response: { must: ['description'], may: ['headers', 'content'], maps: { headers: 'header', content: 'media' } },
  header: { must: ['schema'], may: ['description'] },
  media: { must: [], may: ['schema', 'examples'] },
  reference: { must: ['$ref'], may: ['description', 'summary'] },
}

function checkFields(value: Json, kind: string, where = kind): void {
  const { must, may = [], lists = {}, maps = {} } = objects['$ref' in value ? 'reference' : kind]!
  for (const name of must) assert.ok(name in value, `${where} lacks ${name}`)
  for (const name of Object.keys(value)) assert.ok([...must, ...may].includes(name), `${where} has ${name}`)
  for (const [name, inner] of Object.entries(lists)) {
    for (const [index, one] of (value[name] ?? []).entries()) checkFields(one, inner, `${where}.${name}.${index}`)
  }
  for (const [name, inner] of Object.entries(maps)) {
    for (const [key, one] of Object.entries<Json>(value[name] ?? {})) checkFields(one, inner, `${where}.${name}.${key}`)
  }
  if (kind === 'path')
    for (const name of methods) if (value[name]) checkFields(value[name], 'operation', `${where}.${name}`)
  if (value.requestBody) checkFields(value.requestBody, 'body', `${where}.requestBody`)
  if (kind !== 'document') return
  const { responses, parameters, headers } = value.components
  for (const [inner, ones] of Object.entries<Json>({ response: responses, parameter: parameters, header: headers })) {
    for (const [key, one] of Object.entries<Json>(ones)) checkFields(one, inner, `components.${inner}.${key}`)
  }
}
