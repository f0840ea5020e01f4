import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import { served } from '../jobs/support.ts'
import { addBackup, addJobRow } from '../oauth/matrix.ts'
import { everyScope } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { type Documented, documentedApp, type Json, loggedRequest } from '../support/openapi.ts'

const scopes = `${everyScope} users:read:full admin audit:read`
const product = { name: 'Lamp', price: 24.5 }
const hook = { event: '*', callbackUrl: 'http://127.0.0.1:9/hook', headers: { 'x-team': 'a' }, description: 'All' }
const machine = { name: 'Partner', scopes: ['reports:read'], grants: ['client_credentials'] }
const daily = { name: 'daily', cron: '0 8 * * *', zone: 'UTC', missed: 'once' } as const
const report = { reportType: 'products', format: 'csv', parameters: { filter: { name: 'Lamp' } } }

forEachEngine((engine) => {
  describe('`fields` on every operation that supports it', () => {
    let db: Database
    let documented: Documented
    let ids: Record<string, string>
    before(async () => {
      db = await engine.database()
      documented = await documentedApp(db, { jobs: served([], [daily]) })
      const make = async (url: string, payload: object = {}) => {
        const { send } = documented.service
        return (await send({ method: 'POST', url, payload, scopes })).json()
      }
      await make('/users', { name: 'Ada', email: 'ada@example.com', phone: '+1' })
      await make('/products', product)
      await make('/books', { title: 'Notes', author: 'Ada' })
      for (const [path, body] of [
        ['/products', product],
        ['/books', { title: 'Notes', author: 'Ada' }],
      ] as const) {
        const { id } = await make(path, body)
        await documented.service.send({ method: 'DELETE', url: `${path}/${id}`, scopes })
      }
      const { taskId } = await make('/api/reports', report)
      // A cancelled report, whose representation contains an error.
      await make(`/api/reports/${taskId}/cancel`)
      const webhook = (await make('/api/webhooks', hook)).id
      const delivery = (await make(`/api/webhooks/${webhook}/test`)).id
      const attempts = [attemptOf(delivery, 1, 500), attemptOf(delivery, 2, 502)]
      await db.write((tx) => tx.insertInto('attempts').values(attempts).execute())
      await db.write((tx) => tx.insertInto('nodes').values(node).execute())
      await db.write((tx) => tx.insertInto('auditArchives').values(archive).execute())
      await db.write((tx) => tx.insertInto('requestLog').values(loggedRequest).execute())
      await db.write((tx) => tx.insertInto('authRecords').values(session).execute())
      await db.write((tx) => tx.insertInto('consents').values(consent).execute())
      const id = await addBackup(db, 1)
      ids = {
        ...{ '/api/backups/{id}': id, '/api/jobs/{id}': await addJobRow(db, 1, 'failed'), version: 'v1' },
        requestId: loggedRequest.requestId,
        ...{ taskId, webhook, deliveryId: delivery },
        ...{ client: (await make('/api/clients', machine)).id, key: (await make('/api/keys', { name: 'Batch' })).id },
      }
    })
    after(async () => {
      await documented.service.app.close()
      await db.close()
    })

    const attemptOf = (deliveryId: string, attempt: number, statusCode: number) => ({
      ...{ deliveryId, attempt, startedAt: '2026-03-01T12:00:00.000Z', durationMs: 3 },
      ...{ statusCode, error: `status ${statusCode}`, responseStart: 'no' },
    })

    const node = {
      ...{ id: 'nod_a', hostname: 'node-a', pid: 1, version: '1.0.0', roles: 'api', schemaVersion: '0031-nodes' },
      ...{ settings: '{"PLINTH_BASE_URL":"https://plinth.test"}', resources: '{}', definition: 'a', clockAheadMs: 0 },
      ...{ startedAt: '2026-03-01T12:00:00.000Z', heartbeatAt: '2026-03-01T12:00:00.000Z' },
    }

    const expiresAt = '2099-01-01T00:00:00.000Z'
    const session = {
      ...{
        kind: 'Session',
        id: 's1',
        uid: 'u1',
        userId: 1,
        grantId: null,
        userCode: null,
        consumedAt: null,
        expiresAt,
      },
      payload: JSON.stringify({ iat: 1_772_366_400, loginTs: 1_772_366_400, authorizations: { cli_a: {} } }),
    }
    const consent = { userId: 1, clientId: 'cli_a', scopes: 'openid', updatedAt: '2026-03-01T12:00:00.000Z' }

    const archive = {
      ...{ month: '2025-01', key: 'audit-2025-01-a.ndjson.gz', firstSequence: 1, lastSequence: 2, previousHash: '' },
      ...{ lastHash: 'a', sizeBytes: 9, sha256: 'a', archivedAt: '2026-03-01T12:00:00.000Z', digest: 'a' },
    }

    const narrowed = () =>
      documented
        .operations()
        .filter(({ method, operation }) => method === 'get' && operation.parameters?.some(isFields))
        .map(({ path, operation }) => ({
          url: path.replace(/\{(\w+)\}/g, (_, name) => ids[path] ?? ids[name] ?? ids[idOf(path)] ?? '1'),
          schema: operation.responses['200'].content['application/json'].schema as Json,
        }))
    const isFields = (parameter: Json) => documented.resolve(parameter).name === 'fields'
    const idOf = (path: string) => path.split('/')[2]?.replace(/s$/, '') ?? ''
    const read = async (url: string) => {
      const answer = await documented.service.send({ url, scopes })
      assert.equal(answer.statusCode, 200, `${url} ${answer.body}`)
      return answer.json()
    }

    /** Returns every member path in a response, and an unknown path below each of them. */
    const pathsIn = (value: Json): string[] => {
      if (Array.isArray(value)) return [...new Set(value.flatMap(pathsIn))]
      if (typeof value !== 'object' || value === null) return []
      return Object.entries(value).flatMap(([name, part]) => {
        const isPlain = !name.includes('.') && !name.includes(',')
        return isPlain ? [name, `${name}.nowhere`, ...pathsIn(part).map((path) => `${name}.${path}`)] : []
      })
    }
    const valueAt = (value: Json, names: string[]): Json =>
      names.length === 0 || value === undefined ? value : valueAt(value?.[names[0] as string], names.slice(1))

    /** Returns the documented schema with every member optional, because `fields` may omit any member at any depth. */
    const narrowedSchema = (schema: Json): Json =>
      JSON.parse(JSON.stringify(documented.inlined(schema)), (key, value) => (key === 'required' ? undefined : value))

    /** Fields are selected after the query, so only every fifth path is tested on PostgreSQL. */
    const ofPaths = (paths: readonly string[]) =>
      engine.name === 'sqlite' ? paths : paths.filter((_path, index) => index % 5 === 0)

    it('200 for existing and unknown fields, matching the documented schema', async () => {
      const routes = narrowed()
      assert.ok(routes.length > 15, String(routes.length))
      for (const { url, schema } of routes) {
        const paths = pathsIn(await read(url))
        assert.ok(paths.length > 3, url)
        const loose = narrowedSchema(schema)
        for (const path of ofPaths(paths)) {
          const part = await read(`${url}?fields=${encodeURIComponent(path)}`)
          documented.check(loose, part, `${url} ${path}`)
          const names = path.split('.')
          if (Array.isArray(part)) continue
          const isThere = !/attempts/.test(path) && !path.endsWith('nowhere')
          if (isThere) assert.notEqual(valueAt(part, names), undefined, `${url} ${path}`)
          if (path.endsWith('nowhere')) assert.deepEqual(part, {}, `${url} ${path}`)
        }
        assert.ok(await read(`/v2${url}?fields=${paths.filter((path) => path.includes('.')).slice(0, 50)}`))
      }
    })

    it('200 with the selected fields of each object in a nested list', async () => {
      const { webhook, deliveryId } = ids
      const attempts = [{ statusCode: 500 }, { statusCode: 502 }]
      assert.deepEqual(await read(`/api/webhooks/${webhook}/deliveries?fields=attempts.statusCode`), [{ attempts }])
      assert.deepEqual(
        await read(`/api/webhooks/${webhook}/deliveries/${deliveryId}?fields=attempts.statusCode,status.x`),
        { attempts },
      )
      assert.deepEqual(await read(`/api/reports/${ids.taskId}/status?fields=error.message,_links.self.method`), {
        error: { message: 'The task was cancelled' },
      })
    })
  })
})
