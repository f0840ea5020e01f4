import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { appOn } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { type LiveRoute, liveRoutes } from '../../support/live-routes.ts'
import { fanOutAll } from './fan-out.ts'
import { definition, everyone, north, peopleOn, type Who } from './tenants.ts'

/** Functions that create the target of a request, as the owner, and return its path parameters. */
interface Fixtures {
  note: () => Promise<string[]>
  /** A secret, created by `admin`. */
  secret: () => Promise<string[]>
  /** A report about notes. */
  task: () => Promise<string[]>
  endedTask: () => Promise<string[]>
  /** A webhook for note events. */
  webhook: () => Promise<string[]>
  /** A webhook with a delivery of a note event. */
  delivery: () => Promise<string[]>
}

interface Row {
  statuses: Record<Who, number>
  of?: keyof Fixtures
  /** Well-formed unknown ids. The response for them must equal the response for targets that a caller cannot see. */
  missing?: readonly string[]
  body?: () => object
}

/** Returns one status for some callers, and another for all others. */
const only = (some: readonly Who[], status: number, otherwise = 404): Record<Who, number> =>
  Object.fromEntries(everyone.map((who) => [who, some.includes(who) ? status : otherwise])) as Record<Who, number>
const all = (status: number) => only(everyone, status)

let count = 0
const note = () => ({ tenant: 'north', text: `note ${++count}` })
const secret = () => ({ text: `secret ${++count}` })
const hook = () => ({ event: 'note.*', callbackUrl: `http://127.0.0.1:9/${++count}` })
const notes = { of: 'note', missing: ['2147483647'] } as const
const secrets = { of: 'secret', missing: ['2147483647'] } as const
const missingTask = [`tsk_${'A'.repeat(22)}`]
const tasks = { of: 'task', missing: missingTask } as const
const endedTasks = { of: 'endedTask', missing: missingTask } as const
const missingWebhook = `whk_${'A'.repeat(22)}`
const webhooks = { of: 'webhook', missing: [missingWebhook] } as const
const deliveries = { of: 'delivery', missing: [missingWebhook, `dlv_${'A'.repeat(22)}`] } as const
/** Administrators manage other owners' webhooks, which still send only to their owner's address. */
const managed = (status: number) => only(['owner', 'admin'], status)
const own = (status: number) => only(['owner'], status)

/**
 * The status for each kind of caller on the routes of resources with access rules, and of the owner's reports and
 * webhooks.
 */
const matrix: Record<string, Row> = {
  'GET /notes': { statuses: all(200) },
  'POST /notes': { statuses: only(north, 201, 403), body: note },
  'GET /notes/:id': { statuses: only(north, 200), ...notes },
  'PUT /notes/:id': { statuses: only(north, 200), ...notes, body: note },
  'PATCH /notes/:id': { statuses: only(north, 200), ...notes, body: () => ({ text: 'new' }) },
  'DELETE /notes/:id': { statuses: only(north, 204), ...notes },
  'GET /secrets': { statuses: all(200) },
  'POST /secrets': { statuses: only(['admin'], 201, 403), body: secret },
  'GET /secrets/:id': { statuses: only(['admin'], 200), ...secrets },
  'PUT /secrets/:id': { statuses: only(['admin'], 200), ...secrets, body: secret },
  'PATCH /secrets/:id': { statuses: only(['admin'], 200), ...secrets, body: secret },
  'DELETE /secrets/:id': { statuses: only(['admin'], 204), ...secrets },

  'GET /api/report-types': { statuses: all(200) },
  'GET /api/reports': { statuses: all(200) },
  'POST /api/reports': { statuses: all(202), body: () => ({ reportType: 'notes', format: 'csv' }) },
  'GET /api/reports/:taskId': { statuses: own(200), ...tasks },
  'GET /api/reports/:taskId/status': { statuses: own(200), ...tasks },
  'GET /api/reports/:taskId/download': { statuses: own(409), ...tasks },
  'GET /api/reports/:taskId/events': { statuses: own(200), ...endedTasks },
  'POST /api/reports/:taskId/cancel': { statuses: own(200), ...tasks },
  'POST /api/reports/:taskId/retry': { statuses: own(202), ...endedTasks },
  'DELETE /api/reports/:taskId': { statuses: own(204), ...tasks },

  'GET /api/event-types': { statuses: all(200) },
  'GET /api/webhooks': { statuses: all(200) },
  'POST /api/webhooks': { statuses: all(201), body: hook },
  'GET /api/webhooks/statistics': { statuses: all(200) },
  'GET /api/webhooks/secret': { statuses: all(200) },
  'POST /api/webhooks/secret/rotate': { statuses: all(200), body: () => ({ immediate: true }) },
  'GET /api/webhooks/:id': { statuses: managed(200), ...webhooks },
  'PATCH /api/webhooks/:id': {
    statuses: { ...own(200), admin: 403 },
    ...webhooks,
    body: () => ({ callbackUrl: `http://127.0.0.1:9/${++count}` }),
  },
  'DELETE /api/webhooks/:id': { statuses: managed(204), ...webhooks },
  'POST /api/webhooks/:id/test': { statuses: managed(202), ...webhooks },
  'POST /api/webhooks/:id/rotate-secret': { statuses: managed(200), ...webhooks },
  'POST /api/webhooks/:id/replay': {
    statuses: managed(202),
    ...webhooks,
    body: () => ({ since: '2026-03-01T00:00:00Z' }),
  },
  'GET /api/webhooks/:id/deliveries': { statuses: managed(200), ...webhooks },
  'GET /api/webhooks/:id/deliveries/:deliveryId': { statuses: managed(200), ...deliveries },
  'POST /api/webhooks/:id/deliveries/:deliveryId/redeliver': { statuses: managed(202), ...deliveries },
}

const nameOf = ({ method, url }: LiveRoute) => `${method === 'HEAD' ? 'GET' : method} ${url.replace(/^\/v\d+\//, '/')}`
const isAbout = ({ url }: LiveRoute) =>
  /^(\/v\d+)?\/(notes|secrets|api\/(reports|report-types|webhooks|event-types))(\/|$)/.test(url)

forEachEngine((engine) => {
  describe('the authorization matrix of resources with access rules (T-API-01)', () => {
    const service = appOn(engine, { definition })
    let people: Awaited<ReturnType<typeof peopleOn>>
    before(async () => {
      people = await peopleOn(service.db, service.clock.now)
    })
    const send = (who: Who, method: string, url: string, payload?: object) => {
      const headers = method === 'PATCH' ? { headers: { 'content-type': 'application/merge-patch+json' } } : {}
      const request = { method: method as 'GET', url, token: people.tokens[who], ...(payload && { payload }) }
      return service.send({ ...request, ...headers })
    }
    const make = async (who: Who, url: string, body: object) => {
      const made = await send(who, 'POST', url, body)
      assert.ok(made.statusCode === 201 || made.statusCode === 202, made.body)
      return made.json()
    }
    const task = async (): Promise<string[]> => {
      // Ends the previous reports, because the number of pending reports per client is limited.
      await service.db.write((tx) => tx.updateTable('tasks').set({ status: 'failed' }).execute())
      return [(await make('owner', '/api/reports', { reportType: 'notes', format: 'csv' })).taskId]
    }
    const fixtures: Fixtures = {
      note: async () => [(await make('owner', '/notes', note())).id],
      secret: async () => [(await make('admin', '/secrets', secret())).id],
      task,
      endedTask: async () => {
        const [taskId] = await task()
        await send('owner', 'POST', `/api/reports/${taskId}/cancel`)
        return [String(taskId)]
      },
      webhook: async () => {
        await service.db.write((tx) => tx.deleteFrom('webhooks').execute())
        return [(await make('owner', '/api/webhooks', hook())).id]
      },
      delivery: async () => {
        const [webhookId = ''] = await fixtures.webhook()
        await service.db.write((tx) => tx.deleteFrom('events').execute())
        await fixtures.note()
        const deliveries = await fanOutAll(service, definition)
        return [webhookId, String(deliveries.find((one) => one.webhookId === webhookId)?.id)]
      },
    }
    const pathOf = (url: string, ids: readonly string[]) =>
      ids.reduce((path: string, id) => path.replace(/:\w+/, String(id)), url)
    const request = async (who: Who, { method, url }: LiveRoute, { of, body }: Row) =>
      send(who, method, pathOf(url, of ? await fixtures[of]() : []), body?.())

    it('has exactly one row for each live route of the resources, their reports and webhooks', () => {
      const live = new Set(liveRoutes(service.app).filter(isAbout).map(nameOf))
      assert.deepEqual([...live].sort(), Object.keys(matrix).sort())
    })

    for (const [position, who] of everyone.entries()) {
      it(`states the status of every route for the caller ${who}`, async () => {
        const wrong: string[] = []
        for (const [at, route] of liveRoutes(service.app).filter(isAbout).entries()) {
          // Requests all routes without a version prefix, but only some of those with one, because they share handlers.
          if (/^\/v\d+\//.test(route.url) && at % everyone.length !== position) continue
          const row = matrix[nameOf(route)] as Row
          const { statusCode } = await request(who, route, row)
          const expected = row.statuses[who]
          if (statusCode !== expected) wrong.push(`${route.method} ${route.url}: ${statusCode} instead of ${expected}`)
        }
        assert.deepEqual(wrong, [])
      })
    }

    it('404 for targets that a caller cannot see, identical to the response for unknown ids', async () => {
      const varying = /"(requestId|timestamp|instance|detail)":"[^"]*"/g
      for (const route of liveRoutes(service.app).filter(isAbout)) {
        const row = matrix[nameOf(route)] as Row
        if (row.missing === undefined) continue
        const unseen = await request('stranger', route, row)
        const missing = await send('stranger', route.method, pathOf(route.url, row.missing), row.body?.())
        assert.equal(
          unseen.body.replace(varying, ''),
          missing.body.replace(varying, ''),
          `${route.method} ${route.url}`,
        )
        assert.deepEqual(Object.keys(unseen.headers), Object.keys(missing.headers))
        assert.deepEqual([unseen.statusCode, missing.statusCode], [404, 404])
      }
    })
  })
})
