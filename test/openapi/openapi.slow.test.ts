import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { documentation, everywhere } from '../../src/documentation.ts'
import { documentOf } from '../../src/openapi/document.ts'
import type { Database } from '../../src/storage/database.ts'
import { versionLifecycles } from '../../src/version-lifecycle.ts'
import { testApp } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'
import { baseUrl, type Documented, documentedApp, type Json, methods } from '../support/openapi.ts'

/**
 * The URL and the committed file of each document: one for the service, and one for each version that differs from the
 * contract.
 */
const places = { '/openapi.json': '../../openapi.json', '/v2/openapi.json': '../../openapi.v2.json' }

onSqlite((engine) => {
  let db: Database
  let documented: Documented
  let service: Documented['service']
  let document: Json
  before(async () => {
    db = await engine.database()
    documented = await documentedApp(db)
    service = documented.service
    document = documented.document
  })
  after(async () => {
    await service.app.close()
    await db.close()
  })
  const operations = () => documented.operations()
  const at = (pointer: string) => documented.at(pointer)
  const resolve = (value: Json) => documented.resolve(value)
  const check: Documented['check'] = (...args) => documented.check(...args)

  describe('GET /openapi.json and GET /v2/openapi.json', () => {
    it('200 with a cacheable document for everyone', async () => {
      const answer = await service.send({ url: '/openapi.json', scopes: null })
      assert.equal(answer.statusCode, 200)
      assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8')
      assert.match(String(answer.headers['cache-control']), /^public, max-age=/)
      const headers = { 'if-none-match': String(answer.headers.etag) }
      assert.equal((await service.send({ url: '/openapi.json', headers, scopes: null })).statusCode, 304)
    })

    for (const [url, file] of Object.entries(places)) {
      it(`200 with the committed ${file.slice(6)} at ${url}`, async () => {
        const place = new URL(file, import.meta.url)
        const text = `${JSON.stringify((await service.send({ url, scopes: null })).json(), null, 2)}\n`
        if (process.env.UPDATE === '1') writeFileSync(place, text)
        const same = readFileSync(place, 'utf8') === text
        assert.ok(
          same,
          `${file} is out of date: run \`UPDATE=1 node --test test/openapi/openapi.slow.test.ts\` and look at the diff`,
        )
      })
    }
  })

  describe('the OpenAPI document', () => {
    it('covers exactly the live routes for API clients (T-API-09)', () => {
      const programs = documented.live.filter((route) => !route.isForBrowsers)
      assert.ok(documented.live.length - programs.length > 10)
      const routes = programs.map(({ method, path }) => `${method} ${path.replace(/^\/v\d+\//, '/')}`)
      const listed = operations().map(({ path, method }) => `${method.toUpperCase()} ${path}`)
      assert.deepEqual(listed.sort(), [...new Set(routes)].sort())
    })

    it('of a version covers exactly the live routes of that version', async () => {
      for (const version of ['v1', 'v2']) {
        const { paths, servers } = (await service.send({ url: `/${version}/openapi.json`, scopes: null })).json()
        assert.deepEqual(servers, [{ url: `${baseUrl}/${version}` }])
        const listed = Object.entries<Json>(paths).flatMap(([path, item]) =>
          Object.keys(item).map((method) => `${method.toUpperCase()} /${version}${path}`),
        )
        const live = documented.live.filter(({ path }) => path.startsWith(`/${version}/`))
        assert.deepEqual(listed.sort(), live.map(({ method, path }) => `${method} ${path}`).sort())
        assert.ok(listed.length > 40)
      }
    })

    it('requires the same scope for an operation under every version prefix (T-API-01)', () => {
      const key = ({ method, path, scope, orScope }: Documented['live'][number]) =>
        [method, path.replace(/^\/v\d+\//, '/'), scope, orScope].join(' ')
      const bare = new Set(documented.live.filter(({ path }) => !/^\/v\d+\//.test(path)).map(key))
      const versioned = documented.live.filter(({ path }) => /^\/v\d+\//.test(path))
      assert.deepEqual(
        versioned.map(key).filter((one) => !bare.has(one)),
        [],
      )
    })

    const ways = (scopes: (string | undefined)[]) => [{ bearer: [] }, { oauth2: scopes }]

    it('requires, for each operation, exactly the scope that its route requires', () => {
      const bare = documented.live.filter(({ path, isForBrowsers }) => !isForBrowsers && !/^\/v\d+\//.test(path))
      for (const { method, path, scope, orScope } of bare) {
        const { security } = document.paths[path][method.toLowerCase()]
        const scopes = security.flatMap((way: Record<string, string[]>) => Object.values(way).flat())
        if (scope === 'own') assert.ok(!scopes.some((name: string) => name !== 'openid'), path)
        else if (scope === 'public') assert.deepEqual(security, [{}, ...ways([])], path)
        else if (scope === 'any') assert.deepEqual(security, ways([]), path)
        else if (orScope === undefined) assert.deepEqual(security, ways([scope]), path)
        else assert.deepEqual(security, [...ways([scope]), { oauth2: [orScope] }], path)
      }
    })

    it('lists, for each operation, only servers that serve it', () => {
      for (const { path, method } of operations()) {
        for (const { url } of document.paths[path].servers ?? document.servers) {
          const route = { method: method.toUpperCase(), url: new URL(url).pathname.replace(/\/$/, '') + path }
          const live = service.app.hasRoute({ ...route, url: route.url.replace(/\{(\w+)\}/g, ':$1') } as never)
          assert.ok(live, JSON.stringify(route))
        }
      }
    })

    it('has the path parameters and servers of the API contract, and the service’s events as webhooks', () => {
      for (const path of ['/users/{id}', '/products/{id}', '/books/{id}', '/api/reports/{taskId}/status']) {
        assert.ok(document.paths[path], path)
      }
      assert.deepEqual(document.servers, [{ url: baseUrl }, { url: `${baseUrl}/v1` }])
      assert.deepEqual(Object.keys(document.webhooks), Object.keys(builtIn.events))
    })

    it('uses only fields defined in OpenAPI 3.1', () => {
      checkFields(document, 'document')
      assert.match(document.openapi, /^3\.1\.\d$/)
    })

    it('contains no framework-specific members', () => {
      for (const key of ['querystring', 'patternProperties', '~kind', '~optional', 'config']) {
        assert.ok(!JSON.stringify(document).includes(`"${key}":`), key)
      }
    })

    it('has no dangling references and no unused components', () => {
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

    it('has a unique operationId, a summary, a tag and a success response for each operation', () => {
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
        assert.ok(operation.summary && operation.description && operation.tags.length > 0, `${method} ${path}`)
        assert.ok(
          Object.keys(operation.responses).some((status) => /^[23]/.test(status)),
          `${method} ${path}`,
        )
      }
    })

    it('declares no parameter of an operation twice, and all parameters of its path', () => {
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

    it('requires only declared security schemes and scopes', () => {
      const schemes = document.components.securitySchemes
      for (const { operation, path } of operations()) {
        for (const requirement of operation.security as Json[]) {
          for (const [scheme, scopes] of Object.entries<string[]>(requirement)) {
            const known = Object.keys(
              schemes[scheme].flows?.authorizationCode.scopes ?? schemes.oauth2.flows.authorizationCode.scopes,
            )
            assert.deepEqual(
              scopes.filter((scope) => !known.includes(scope)),
              [],
              path,
            )
          }
        }
      }
      assert.equal(schemes.oauth2.flows.clientCredentials.tokenUrl, `${baseUrl}/oauth/token`)
      const { authorizationCode, clientCredentials } = schemes.oauth2.flows
      assert.equal(authorizationCode.authorizationUrl, `${baseUrl}/oauth/authorize`)
      assert.ok('openid' in authorizationCode.scopes && !('openid' in clientCredentials.scopes))
      assert.ok(schemes.oauth2.description.includes(`${baseUrl}/.well-known/openid-configuration`))
    })

    it('has schemas that compile, and examples that match them', () => {
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
        } else if (value.schema && 'example' in value) see(value.schema, [value.example], where)
        else if (value.schema) documented.compile(value.schema)
      })
      for (const name of Object.keys(document.components.schemas))
        documented.compile({ $ref: `#/components/schemas/${name}` })
      assert.ok(examples > 60, String(examples))
    })

    it('has an example for each component schema except the error schemas', () => {
      for (const [name, schema] of Object.entries<Json>(document.components.schemas)) {
        if (['ErrorCode', 'ErrorBody'].includes(name)) continue
        assert.ok(schema.examples?.length > 0, name)
      }
    })

    it('allows null for optional members in a merge patch', () => {
      const { content } = document.paths['/users/{id}'].patch.requestBody
      assert.deepEqual(Object.keys(content), ['application/merge-patch+json', 'application/json'])
      const { schema } = content['application/merge-patch+json']
      check(schema, { phone: null }, 'UserPatch')
      assert.throws(() => check(schema, { email: null }, 'UserPatch'))
    })

    it('documents whole resources as responses, and describes how `fields` narrows them', () => {
      const { schema } = document.paths['/users/{id}'].get.responses['200'].content['application/json']
      assert.deepEqual(schema, { $ref: '#/components/schemas/User' })
      const { User, Book } = document.components.schemas
      assert.deepEqual(User.required, ['id', 'name', 'email', 'createdAt', 'updatedAt'])
      assert.deepEqual(Book.properties._links.additionalProperties.required, ['href'])
      assert.match(document.info.description, /`fields` limits a response/)
    })

    it('has a single schema for all errors', () => {
      for (const [name, { content }] of Object.entries<Json>(document.components.responses)) {
        for (const { schema } of Object.values<Json>(content ?? {})) {
          assert.deepEqual(schema, { $ref: '#/components/schemas/ErrorBody' }, name)
        }
      }
    })

    it('has a format for every number', () => {
      walk(document, (value, where) => {
        // `limit` has no format, because the service accepts an integer of any size and clamps it to the maximum.
        if (where.includes('/Limit/')) return
        if (['number', 'integer'].includes([value.type].flat()[0]))
          assert.match(value.format, /^(double|int32|int64)$/, where)
      })
      const { Product, Task } = document.components.schemas
      assert.equal(Product.properties.price.format, 'double')
      assert.equal(Product.properties.id.format, 'int64')
      assert.equal(Task.properties.sizeBytes.format, 'int64')
    })

    it('has only patterns that RE2, Python, Java and Rust can parse: no look-around, \\u, backreferences or lone surrogates', () => {
      const patterns: string[] = []
      walk(document, ({ pattern }, where) => {
        if (typeof pattern !== 'string') return
        patterns.push(pattern)
        assert.doesNotMatch(pattern, /\(\?[=!<]|\\u|\\[1-9]/, where)
        assert.ok(pattern.isWellFormed(), where)
      })
      assert.ok(patterns.length > 0)
    })

    it('has an example for each parameter, and for each body that is not a file', () => {
      const lacking: string[] = []
      walk(document, (value, where) => {
        const isParameter = 'in' in value && 'schema' in value
        if (isParameter && !('example' in value)) lacking.push(where)
        for (const [type, one] of Object.entries<Json>(value.content ?? {})) {
          if (one.schema && !one.example && !one.examples && !isFile.test(type)) lacking.push(`${where}/${type}`)
        }
      })
      assert.deepEqual(lacking, [])
    })

    it('describes the headers common to all responses only once, in its description', () => {
      for (const name of everywhere.headers) {
        assert.ok(document.info.description.includes(`\`${name}\``), name)
      }
      const { headers } = document.paths['/livez'].get.responses['200']
      assert.deepEqual(Object.keys(headers), ['Preference-Applied'])
    })

    it('lists the binary media type of a download first', () => {
      const { responses } = document.paths['/api/reports/{taskId}/download'].get
      assert.equal(Object.keys(responses['200'].content)[0], 'application/octet-stream')
      assert.ok(!('406' in responses))
    })

    it('omits webhooks if the query has webhooks=false; 400 for webhooks=no', async () => {
      for (const url of ['/openapi.json', '/v2/openapi.json']) {
        const answer = await service.send({ url: `${url}?webhooks=false`, scopes: null })
        assert.equal(answer.statusCode, 200)
        const smaller = answer.json()
        assert.ok(!('webhooks' in smaller))
        assert.ok(!smaller.tags.some(({ name }: Json) => name === 'events'))
        assert.deepEqual(
          Object.keys(smaller.paths),
          Object.keys((await service.send({ url, scopes: null })).json().paths),
        )
      }
      assert.equal((await service.send({ url: '/openapi.json?webhooks=no', scopes: null })).statusCode, 400)
    })

    it('has enums for closed sets and numeric types for numbers', () => {
      const { Task, ReportCreate, WebhookCreate } = document.components.schemas
      assert.deepEqual(Task.properties.status.enum, ['pending', 'in_progress', 'completed', 'failed'])
      assert.deepEqual(ReportCreate.properties.reportType.enum, [
        ...['users', 'products', 'books', 'inventory', 'activity', 'deliveries'],
      ])
      assert.deepEqual(ReportCreate.properties.format.enum, ['json', 'csv', 'ndjson', 'xlsx', 'pdf'])
      assert.ok(WebhookCreate.properties.event.enum.includes('report.*'))
      const parameters = document.paths['/products'].get.parameters.map(resolve)
      for (const name of ['minPrice', 'maxPrice'])
        assert.equal(parameters.find((one: Json) => one.name === name).schema.type, 'number')
    })

    it('describes and uses each tag', () => {
      const calls = Object.values<Json>(document.webhooks).map(({ post }) => post)
      const used = new Set([...operations().map(({ operation }) => operation), ...calls].flatMap(({ tags }) => tags))
      for (const { tags } of calls) assert.deepEqual(tags, ['events'])
      assert.deepEqual(document.tags.map(({ name }: Json) => name).sort(), [...used].sort())
      for (const { name, description } of document.tags) assert.ok(description, name)
    })

    it('documents the 429 body as ErrorBody, in application/json only', () => {
      const documents = documentation(builtIn, versionLifecycles(builtIn, {}), { baseUrl, version: '1.0.0' })
      const options = documents['/openapi.json']!
      const limited = { ...options.everywhere, problems: ['RATE_LIMIT_EXCEEDED' as const] }
      const route = { method: 'GET', path: '/things', config: { scope: 'any' }, schema: { operationId: 'listThings' } }
      const { components, paths } = documentOf([route], { ...options, everywhere: limited })
      const { TooManyRequests } = components.responses as Json
      assert.deepEqual(Object.keys(TooManyRequests.content), ['application/json'])
      assert.deepEqual(TooManyRequests.content['application/json'].schema, { $ref: '#/components/schemas/ErrorBody' })
      assert.ok('Retry-After' in TooManyRequests.headers && '429' in (paths['/things'] as Json).get.responses)
    })

    it('has no dangling references without the authorization server or without the API', async () => {
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
})

/** Matches the media types of binary files. */
const isFile = /octet-stream|pdf|vnd\./

function walk(value: unknown, visit: (value: Json, where: string) => void, where = '#'): void {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value)) visit(value as Json, where)
  // Skips examples: their members are data, even if they are named like OpenAPI fields.
  for (const [key, inner] of Object.entries(value))
    if (key !== 'examples' && key !== 'example') walk(inner, visit, `${where}/${key}`)
}

/** The OpenAPI objects in use, with their required and optional fields and the objects nested inside them. */
const objects: Record<
  string,
  { must: string[]; may?: string[]; lists?: Record<string, string>; maps?: Record<string, string> }
> = {
  document: {
    must: ['openapi', 'info', 'externalDocs', 'servers', 'tags', 'paths', 'webhooks', 'components'],
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
  parameter: { must: ['name', 'in', 'schema', 'description'], may: ['required', 'example', 'style', 'explode'] },
  body: { must: ['content'], may: ['required', 'description'], maps: { content: 'media' } },
  response: { must: ['description'], may: ['headers', 'content'], maps: { headers: 'header', content: 'media' } },
  header: { must: ['schema'], may: ['description'] },
  media: { must: [], may: ['schema', 'example', 'examples'] },
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
