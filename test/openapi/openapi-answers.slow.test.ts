import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { LightMyRequestResponse as Answer, InjectOptions } from 'fastify'
import { builtIn } from '../../src/catalog/service.ts'
import { everywhere } from '../../src/documentation.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import type { Database } from '../../src/storage/database.ts'
import { onSqlite } from '../support/engines.ts'
import { type Documented, documentedApp, type Json, loggedRequest, seal } from '../support/openapi.ts'

onSqlite((engine) => {
  let db: Database
  let documented: Documented
  let service: Documented['service']
  before(async () => {
    db = await engine.database()
    documented = await documentedApp(db)
    service = documented.service
  })
  after(async () => {
    await service.app.close()
    await db.close()
  })

  describe('responses that match the OpenAPI document', () => {
    const json = { 'content-type': 'application/json' }
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const product = { name: 'Lamp', price: 24.5 }
    const user = { name: 'Ada', email: 'ada@example.com', phone: '+1' }
    const book = { title: 'Notes', author: 'Ada', genre: 'mathematics' }
    const newBook = { items: [{ method: 'POST', collection: 'books', body: book }] }
    const outdated = { items: [{ method: 'DELETE', collection: 'products', id: 2, ifMatch: '"9"' }] }
    const admin = { scopes: 'admin' }
    const stale = { 'if-match': '"9"' }
    const machine = { name: 'Partner', scopes: ['reports:read'], grants: ['client_credentials'] }
    const report = { reportType: 'books', format: 'csv' }
    const hook = { event: 'report.completed', callbackUrl: 'http://127.0.0.1:9/hook' }
    const post = (url: string, payload: unknown, more: object = {}) =>
      ({ method: 'POST', url, payload, headers: json, ...more }) as Request
    const act = (name: string) => ({ method: 'POST' as const, url: `/api/reports/${ids.task}/${name}` })
    const removal = () => ({ method: 'DELETE' as const, url: `/api/reports/${ids.task}` })
    const onHook = (name: string, payload?: object, more: object = {}) =>
      ({ method: 'POST', url: `/api/webhooks/${ids.webhook}/${name}`, ...(payload && { payload }), ...more }) as Request
    const patchHook = (payload: object) =>
      ({ method: 'PATCH', url: `/api/webhooks/${ids.webhook}`, payload }) as Request
    const deliveryPath = () => `/api/webhooks/${ids.webhook}/deliveries/${ids.delivery}`
    const seenEnd = { 'last-event-id': '2' }
    let credentials: string
    let ids: Record<string, string>
    const seen = new Set<string>()
    before(async () => {
      const client = { name: 'Machine', scopes: ['reports:read'], grants: ['client_credentials'] }
      const created = await createClient(db, seal, builtIn.scopes, client)
      credentials = `client_id=${created.client.id}&client_secret=${created.secret}`
      await service.send(post('/users', user))
      for (const name of ['Lamp', 'Chair']) await service.send(post('/products', { ...product, name }))
      await service.send(post('/books', book))
      ids = {
        task: (await service.send(post('/api/reports', report))).json().taskId,
        webhook: (await service.send(post('/api/webhooks', hook))).json().id,
        client: (await service.send(post('/api/clients', machine, admin))).json().id,
        key: (await service.send(post('/api/keys', { name: 'Batch' }, admin))).json().id,
      }
      await db.write((tx) => tx.insertInto('requestLog').values(loggedRequest).execute())
      ids.delivery = (await service.send(post(`/api/webhooks/${ids.webhook}/test`, {}))).json().id
    })

    type Request = InjectOptions & { scopes?: string | null; token?: string }
    const cases: [status: number, path: string, request: () => Request][] = [
      [200, '/livez', () => ({})],
      [200, '/readyz', () => ({ scopes: null })],
      [401, '/livez', () => ({ token: 'expired' })],
      [200, '/metrics', () => ({ scopes: 'admin' })],
      [200, '/api/usage', () => ({})],
      [200, '/openapi.json', () => ({})],
      [400, '/livez', () => ({ url: '/livez', headers: { host: ['a', 'b'] as never } })],
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
      [406, '/users', () => ({ headers: { accept: 'text/html' } })],
      [415, '/users', () => post('/users', 'x', { headers: { 'content-type': 'text/plain' } })],
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
      [412, '/users/{id}', () => ({ url: '/users/1', headers: { 'if-match': '"99"' } })],
      [200, '/users/{id}', () => ({ url: '/users/1?fields=name,_links.self' })],
      [200, '/users/{id}', () => ({ method: 'PUT', url: '/users/1', payload: user })],
      [400, '/users/{id}', () => ({ method: 'PATCH', url: '/users/1', payload: { email: null } })],
      [422, '/users/{id}', () => ({ method: 'PATCH', url: '/users/1', payload: { phone: 'x' } })],
      [204, '/users/{id}', () => ({ method: 'DELETE', url: '/users/1' })],
      [404, '/users/{id}', () => ({ method: 'DELETE', url: '/users/1' })],
      [200, '/books', () => ({ url: '/books?sort=-title&author=ada', scopes: null })],
      [200, '/books', () => ({ url: '/books?fields=_links.self', scopes: null })],
      [201, '/books', () => post('/books', book)],
      [200, '/books/{id}', () => ({ url: '/books/1', scopes: null })],
      [200, '/books/{id}', () => ({ method: 'PUT', url: '/books/1', payload: book })],
      [200, '/books/{id}', () => ({ method: 'PATCH', url: '/books/1', payload: { genre: null } })],
      [204, '/books/{id}', () => ({ method: 'DELETE', url: '/books/1' })],
      [200, '/products', () => ({ scopes: null })],
      [200, '/products', () => ({ url: '/products?minPrice=1e1&maxPrice=25', scopes: null })],
      [400, '/products', () => ({ url: '/products?minPrice=cheap', scopes: null })],
      [201, '/products', () => post('/products', product)],
      [200, '/products/{id}', () => ({ url: '/products/2', scopes: null })],
      [200, '/products/{id}', () => ({ method: 'PATCH', url: '/products/2', payload: { price: 1 } })],
      [200, '/products/{id}', () => ({ method: 'PUT', url: '/products/1', payload: product })],
      [412, '/products/{id}', () => ({ method: 'DELETE', url: '/products/1', headers: { 'if-match': '"99"' } })],
      [204, '/products/{id}', () => ({ method: 'DELETE', url: '/products/1' })],
      [200, '/api/batch', () => post('/api/batch', newBook)],
      [403, '/api/batch', () => post('/api/batch', newBook, admin)],
      [412, '/api/batch', () => post('/api/batch', outdated)],
      [422, '/api/batch', () => post('/api/batch', { items: [] })],
      [200, '/api/deleted/products', () => ({})],
      [403, '/api/deleted/products', () => ({ scopes: 'products:read' })],
      [400, '/api/deleted/products', () => ({ url: '/api/deleted/products?cursor=x' })],
      [201, '/api/deleted/products/{id}/restore', () => post('/api/deleted/products/1/restore', undefined)],
      [404, '/api/deleted/products/{id}/restore', () => post('/api/deleted/products/1/restore', undefined)],
      [204, '/products/{id}', () => ({ method: 'DELETE', url: '/products/1' })],
      [204, '/api/deleted/products/{id}', () => ({ method: 'DELETE', url: '/api/deleted/products/1' })],
      [404, '/api/deleted/products/{id}', () => ({ method: 'DELETE', url: '/api/deleted/products/1' })],
      [200, '/api/deleted/books', () => ({})],
      [201, '/api/deleted/books/{id}/restore', () => post('/api/deleted/books/1/restore', undefined)],
      [204, '/books/{id}', () => ({ method: 'DELETE', url: '/books/1' })],
      [204, '/api/deleted/books/{id}', () => ({ method: 'DELETE', url: '/api/deleted/books/1' })],
      [404, '/api/deleted/books/{id}/restore', () => post('/api/deleted/books/1/restore', undefined)],
      [202, '/api/reports', () => post('/api/reports', report)],
      [422, '/api/reports', () => post('/api/reports', { ...report, webhookUrl: 'http://10.0.0.1/' })],
      [200, '/api/reports', () => ({})],
      [200, '/api/report-types', () => ({})],
      [200, '/api/reports/{taskId}', () => ({ url: `/api/reports/${ids.task}` })],
      [200, '/api/reports/{taskId}', () => ({ url: `/api/reports/${ids.task}?fields=status` })],
      [200, '/api/reports/{taskId}/status', () => ({ url: `/v1/api/reports/${ids.task}/status` })],
      [404, '/api/reports/{taskId}/status', () => ({ url: '/api/reports/tsk_none/status' })],
      [409, '/api/reports/{taskId}/download', () => ({ url: `/api/reports/${ids.task}/download` })],
      [409, '/api/reports/{taskId}/retry', () => act('retry')],
      [200, '/api/reports/{taskId}/cancel', () => act('cancel')],
      [409, '/api/reports/{taskId}/cancel', () => act('cancel')],
      [202, '/api/reports/{taskId}/retry', () => act('retry')],
      [200, '/api/reports/{taskId}/events', () => ({ url: `/api/reports/${ids.task}/events` })],
      [204, '/api/reports/{taskId}/events', () => ({ url: `/api/reports/${ids.task}/events`, headers: seenEnd })],
      [412, '/api/reports/{taskId}', () => ({ ...removal(), headers: { 'if-match': '"99"' } })],
      [204, '/api/reports/{taskId}', () => removal()],
      [404, '/api/reports/{taskId}', () => removal()],
      [200, '/api/clients', () => admin],
      [403, '/api/clients', () => ({})],
      [201, '/api/clients', () => post('/api/clients', machine, admin)],
      [409, '/api/clients', () => post('/api/clients', { ...machine, id: ids.client }, admin)],
      [422, '/api/clients', () => post('/api/clients', { ...machine, scopes: ['x'] }, admin)],
      [200, '/api/clients/{id}', () => ({ url: `/api/clients/${ids.client}`, ...admin })],
      [200, '/api/clients/{id}', () => ({ url: `/api/clients/${ids.client}?fields=name`, ...admin })],
      [404, '/api/clients/{id}', () => ({ url: '/api/clients/none', ...admin })],
      [
        200,
        '/api/clients/{id}',
        () => ({ method: 'PATCH', url: `/api/clients/${ids.client}`, payload: { firstParty: null }, ...admin }),
      ],
      [
        200,
        '/api/clients/{id}/rotate-secret',
        () => ({ method: 'POST', url: `/api/clients/${ids.client}/rotate-secret`, ...admin }),
      ],
      [200, '/api/clients/{id}/usage', () => ({ url: `/api/clients/${ids.client}/usage`, ...admin })],
      [404, '/api/clients/{id}/usage', () => ({ url: '/api/clients/unknown/usage', ...admin })],
      [204, '/api/clients/{id}', () => ({ method: 'DELETE', url: `/api/clients/${ids.client}`, ...admin })],
      [200, '/api/keys', () => admin],
      [201, '/api/keys', () => post('/api/keys', { name: 'Batch', rate: '1/1', quota: null }, admin)],
      [422, '/api/keys', () => post('/api/keys', { name: 'Batch', rate: 'x' }, admin)],
      [200, '/api/keys/{id}', () => ({ url: `/api/keys/${ids.key}`, ...admin })],
      [
        200,
        '/api/keys/{id}',
        () => ({ method: 'PATCH', url: `/api/keys/${ids.key}`, payload: { quota: 5 }, ...admin }),
      ],
      [200, '/api/keys/{id}/usage', () => ({ url: `/api/keys/${ids.key}/usage`, ...admin })],
      [412, '/api/keys/{id}', () => ({ method: 'DELETE', url: `/api/keys/${ids.key}`, headers: stale, ...admin })],
      [204, '/api/keys/{id}', () => ({ method: 'DELETE', url: `/api/keys/${ids.key}`, ...admin })],
      [200, '/api/audit', () => ({ url: '/api/audit?event=key.created&limit=1', ...admin })],
      [200, '/api/audit/archives', () => ({ scopes: 'audit:read' })],
      [403, '/api/audit/archives', () => ({})],
      [200, '/api/health', () => admin],
      [403, '/api/health', () => ({})],
      [200, '/api/versions', () => admin],
      [403, '/api/versions', () => ({})],
      [200, '/api/nodes', () => admin],
      [200, '/api/metrics/history', () => admin],
      [400, '/api/metrics/history', () => ({ url: '/api/metrics/history?step=1', ...admin })],
      [200, '/api/traffic', () => ({ url: '/api/traffic?by=address&window=day', ...admin })],
      [200, '/api/requests', () => ({ url: '/api/requests?status=2xx&limit=1', ...admin })],
      [400, '/api/requests', () => ({ url: '/api/requests?status=x', ...admin })],
      [200, '/api/requests/{requestId}', () => ({ url: '/api/requests/urn:request:request-1', ...admin })],
      [404, '/api/requests/{requestId}', () => ({ url: '/api/requests/unknown', ...admin })],
      [403, '/api/nodes', () => ({})],
      [200, '/api/queues', () => admin],
      [403, '/api/queues', () => ({})],
      [200, '/api/jobs', () => admin],
      [400, '/api/jobs', () => ({ url: '/api/jobs?status=x', ...admin })],
      [404, '/api/jobs/{id}', () => ({ url: '/api/jobs/job_0', ...admin })],
      [404, '/api/jobs/{id}/retry', () => post('/api/jobs/job_0/retry', {}, admin)],
      [404, '/api/jobs/{id}/cancel', () => post('/api/jobs/job_0/cancel', {}, admin)],
      [200, '/api/schedules', () => admin],
      [403, '/api/schedules', () => ({})],
      [400, '/api/audit', () => ({ url: '/api/audit?from=x', scopes: 'audit:read' })],
      [200, '/api/webhooks', () => ({})],
      [200, '/api/webhooks/statistics', () => ({ url: `/api/webhooks/statistics?ids=${ids.webhook}` })],
      [400, '/api/webhooks/statistics', () => ({ url: '/api/webhooks/statistics?ids=,' })],
      [201, '/api/webhooks', () => post('/api/webhooks', { ...hook, event: '*', description: 'All' })],
      [409, '/api/webhooks', () => post('/api/webhooks', hook)],
      [200, '/api/webhooks/{id}', () => ({ url: `/api/webhooks/${ids.webhook}` })],
      [404, '/api/webhooks/{id}', () => ({ url: '/api/webhooks/none' })],
      [200, '/api/webhooks/{id}/deliveries', () => ({ url: `/api/webhooks/${ids.webhook}/deliveries` })],
      [200, '/api/webhooks/{id}/deliveries', () => ({ url: `/api/webhooks/${ids.webhook}/deliveries?status=failed` })],
      [400, '/api/webhooks/{id}/deliveries', () => ({ url: `/api/webhooks/${ids.webhook}/deliveries?sort=x` })],
      [202, '/api/webhooks/{id}/test', () => onHook('test')],
      [422, '/api/webhooks/{id}/test', () => onHook('test', { event: 'x' })],
      [200, '/api/webhooks/{id}/deliveries/{deliveryId}', () => ({ url: deliveryPath() })],
      [404, '/api/webhooks/{id}/deliveries/{deliveryId}', () => ({ url: `${deliveryPath()}x` })],
      [
        202,
        '/api/webhooks/{id}/deliveries/{deliveryId}/redeliver',
        () => ({ method: 'POST', url: `${deliveryPath()}/redeliver` }),
      ],
      [202, '/api/webhooks/{id}/replay', () => onHook('replay', { since: '2026-01-01T00:00:00Z' })],
      [422, '/api/webhooks/{id}/replay', () => onHook('replay', { since: '2030-01-01T00:00:00Z' })],
      [200, '/api/webhooks/{id}/rotate-secret', () => onHook('rotate-secret')],
      [412, '/api/webhooks/{id}/rotate-secret', () => onHook('rotate-secret', {}, { headers: { ...json, ...stale } })],
      [200, '/api/webhooks/{id}', () => patchHook({ status: 'paused', headers: { a: 'b' } })],
      [409, '/api/webhooks/{id}/replay', () => onHook('replay', { since: '2026-01-01T00:00:00Z' })],
      [409, '/api/webhooks/{id}', () => patchHook({ event: '*' })],
      [422, '/api/webhooks/{id}', () => patchHook({ callbackUrl: 'http://10.0.0.1/' })],
      [412, '/api/webhooks/{id}', () => ({ ...patchHook({ status: 'active' }), headers: { ...json, ...stale } })],
      [200, '/api/webhooks/secret/rotate', () => ({ method: 'POST' })],
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
      [401, '/oauth/userinfo', () => ({ scopes: null })],
      [401, '/oauth/userinfo', () => ({ method: 'POST', scopes: null })],
      [201, '/api/users/{id}/invitation', () => post('/api/users/2/invitation', {}, { scopes: 'admin' })],
      [404, '/api/users/{id}/invitation', () => post('/api/users/99/invitation', {}, { scopes: 'admin' })],
      [403, '/api/users/{id}/invitation', () => post('/api/users/1/invitation', {})],
      [200, '/api/users', () => ({ url: '/api/users?status=invited', ...admin })],
      [200, '/api/users', () => ({ url: '/api/users?fields=id', ...admin })],
      [400, '/api/users', () => ({ url: '/api/users?role=king', ...admin })],
      [200, '/api/users/{id}/account', () => ({ url: '/api/users/2/account', ...admin })],
      [404, '/api/users/{id}/account', () => ({ url: '/api/users/99/account', ...admin })],
      [
        200,
        '/api/users/{id}/account',
        () => ({ method: 'PATCH', url: '/api/users/2/account', payload: { locked: true }, ...admin }),
      ],
      [
        412,
        '/api/users/{id}/account',
        () => ({ method: 'PATCH', url: '/api/users/2/account', payload: {}, headers: stale, ...admin }),
      ],
      [200, '/api/users/{id}/sessions', () => ({ url: '/api/users/2/sessions', ...admin })],
      [204, '/api/users/{id}/sessions', () => ({ method: 'DELETE', url: '/api/users/2/sessions', ...admin })],
      [
        404,
        '/api/users/{id}/sessions/{sessionId}',
        () => ({ method: 'DELETE', url: '/api/users/2/sessions/x', ...admin }),
      ],
      [200, '/api/users/{id}/grants', () => ({ url: '/api/users/2/grants', ...admin })],
      [404, '/api/users/{id}/grants/{clientId}', () => ({ method: 'DELETE', url: '/api/users/2/grants/x', ...admin })],
      [200, '/api/signing-keys', () => admin],
      [200, '/api/signing-keys/rotate', () => post('/api/signing-keys/rotate', {}, admin)],
      [403, '/api/signing-keys/rotate', () => post('/api/signing-keys/rotate', {})],
      [200, '/api/settings', () => admin],
      [403, '/api/settings', () => ({})],
      [200, '/api/storage', () => admin],
      [403, '/api/storage', () => ({})],
      [200, '/api/backups', () => admin],
      [409, '/api/backups', () => post('/api/backups', {}, admin)],
      [404, '/api/backups/{id}', () => ({ url: '/api/backups/bak_0', ...admin })],
      [404, '/api/backups/{id}/download', () => ({ url: '/api/backups/bak_0/download', ...admin })],
      [404, '/api/backups/{id}/verify', () => post('/api/backups/bak_0/verify', {}, admin)],
      [202, '/api/health/examination', () => post('/api/health/examination', {}, admin)],
      [200, '/api/health/examination', () => admin],
      [202, '/api/audit/verification', () => post('/api/audit/verification', {}, { scopes: 'audit:read' })],
      [200, '/api/audit/verification', () => ({ scopes: 'audit:read' })],
      [200, '/api/audit/export', () => ({ scopes: 'audit:read' })],
      [400, '/api/audit/export', () => ({ url: '/api/audit/export?from=x', scopes: 'audit:read' })],
      [404, '/api/versions/{version}/retirement', () => ({ url: '/api/versions/9/retirement', ...admin })],
      [200, '/oauth/jwks', () => ({})],
      [200, '/.well-known/openid-configuration', () => ({})],
      [200, '/.well-known/oauth-authorization-server', () => ({})],
      [200, '/.well-known/oauth-protected-resource', () => ({})],
    ]
    /** The HTTP method of each helper's request. */
    const methodOf: Record<string, string> = {
      act: 'POST',
      onHook: 'POST',
      patchHook: 'PATCH',
      post: 'POST',
      removal: 'DELETE',
    }
    for (const [status, path, request] of cases) {
      const [, helper = ''] = /\b(act|onHook|patchHook|post|removal)\(/.exec(`${request}`) ?? []
      const method = /\bmethod: '(\w+)'/.exec(`${request}`)?.[1] ?? methodOf[helper] ?? 'GET'
      it(`${status} for ${method} ${path}`, async () => {
        const sent = { url: path, method: 'GET' as const, ...request() }
        const answer = await service.send(sent)
        assert.equal(answer.statusCode, status, answer.body)
        const operation = documented.document.paths[path][sent.method.toLowerCase()]
        assert.ok(operation.responses[status], `${status} is not documented`)
        seen.add(`${operation.operationId} ${status < 400}`)
        checkAnswer(answer, operation.responses[status], String(sent.url).includes('fields='))
      })
    }

    /**
     * Operations that require a worker, a job, a user with a browser, a backup folder or a deprecated version. Other
     * tests cover them.
     */
    const elsewhere = [
      ...['readUserInfo', 'postUserInfo', 'downloadReport', 'deleteSession', 'deleteGrant'],
      ...['createBackup', 'readBackup', 'downloadBackup', 'verifyBackup', 'planRetirement'],
      ...['readJob', 'retryJob', 'cancelJob'],
    ]

    it('cover every operation in the document', () => {
      const ids = documented.operations().map(({ operation }) => operation.operationId)
      assert.deepEqual(
        ids.filter((id) => !seen.has(`${id} true`)),
        ids.filter((id) => elsewhere.includes(id)),
      )
      assert.deepEqual(
        elsewhere.filter((id) => !seen.has(`${id} false`)),
        [],
      )
    })

    /** Headers for message framing and content coding, which operations do not declare. */
    const framing = /^(content-(type|length|encoding)|transfer-encoding|date|connection|keep-alive)$/

    function checkAnswer(answer: Answer, described: Json, isNarrowed: boolean) {
      const { content, headers = {}, description } = documented.resolve(described)
      const known = [...Object.keys(headers), ...everywhere.headers].map((name) => name.toLowerCase())
      const unknown = Object.keys(answer.headers).filter((name) => !framing.test(name) && !known.includes(name))
      assert.deepEqual(unknown, [], 'headers that are not documented')
      for (const [name, header] of Object.entries<Json>(headers))
        checkHeader(answer.headers[name.toLowerCase()], header)
      const [type = ''] = String(answer.headers['content-type'] ?? '').split(';')
      if (answer.body === '') return assert.equal(content, undefined)
      assert.ok(content?.[type], `${type} is not documented`)
      const body = /[/+]json$/.test(type) ? answer.json() : answer.body
      documented.check(isNarrowed ? narrowed(content[type].schema) : content[type].schema, body, type)
      if (answer.statusCode >= 400 && body.errorCode) assert.ok(description.includes(`${body.errorCode}:`), description)
    }

    function checkHeader(value: unknown, header: Json) {
      if (value === undefined) return
      const { schema } = documented.resolve(header)
      documented.check(schema, schema.type === 'integer' ? Number(value) : String(value), 'a header')
    }

    /** Returns the schema of a response to a request with `fields`, in which every member is optional. */
    function narrowed(schema: Json): Json {
      const { required, ...rest } = documented.resolve(schema)
      return rest.items ? { ...rest, items: narrowed(rest.items) } : rest
    }
  })
})
