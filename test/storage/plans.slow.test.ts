import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it, mock } from 'node:test'
import { sql } from 'kysely'
import { addAudit } from '../../scripts/fill/audit.ts'
import { addBooks, addDeliveries, addTasks, addUsers } from '../../scripts/fill/tables.ts'
import { openTarget } from '../../scripts/fill/target.ts'
import { operator } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { signingKeys } from '../../src/oauth/keys/signing-keys.ts'
import { authorizationServer } from '../../src/oauth/provider/provider.ts'
import type { Database } from '../../src/storage/database.ts'
import { insert, newRegistration } from '../../src/webhooks/registrations.ts'
import { addBackup, addJobRow, type Fixtures, matrix } from '../oauth/matrix.ts'
import { issuer, persons, sealer } from '../oauth/support.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { liveRoutes } from '../support/live-routes.ts'
import { judge, noteStatements, type Statement } from '../support/statements.ts'

const rows = 20_000
const owner = 'cli_large'

/** Statements that may sort or scan, because something other than an index limits the number of rows. */
const bounded: [text: RegExp, reason: string][] = [
  [/from "attempts".* order by "attempt"/, 'the tries of one page of deliveries'],
  [
    /^select "id" from "events" where "id" in \(/,
    'the events of those deliveries that one replay looks at, by their key: of so few, PostgreSQL reads them all instead',
  ],
  [/\(select count\(\*\) from \(select 1 from /, 'the metrics: each count stops at 10,000 entries of an index'],
  [
    /select lane, failures from delivery_lanes where lane in \(/,
    'the queues of up to 100 webhooks, by their key: of so few, PostgreSQL reads them all instead',
  ],
  [/from pragma_/, 'facts about the file or a table, not rows'],
  [/from "schema_changes" where "finished_at" is null/, 'the changes of the schema, which only operators make'],
  [/from "backups"/, 'at most 100 rows'],
  [/from "audit_archives"/, 'one row for each archived month'],
  [/from "data_keys"/, 'a few rows: each data key, once for each valid master key'],
  [/from "version_calls"/, 'limited, and sorted by its index but for callers of the same instant'],
]

forEachEngine((engine) => {
  describe('statements of all routes', () => {
    let db: Database
    let service: TestApp
    let webhookId: string
    let seen: Map<string, Statement>
    const scanned = new Set<string>()
    const admin = token([...Object.keys(builtIn.scopes)].join(' '), owner)
    const plain = token('webhooks:read reports:read', owner)
    let count = 0

    before(async () => {
      seen = noteStatements(mock)
      const opened = await engine.database()
      const scan: Database['scan'] = (query, requester) => {
        scanned.add(query.compile().sql)
        return opened.scan(query, requester)
      }
      db = { ...opened, scan }
      webhookId = await fill(db)
      seen.clear()
      const keys = await signingKeys({ db, sealer, now: Date.now })
      const { login, frame } = persons(db)
      const fixed = { issuer, audience: issuer, db, now: Date.now, scopes: builtIn.scopes, sealer, keys, login, frame }
      const server = { address: () => '127.0.0.1', accessTokenSeconds: 900, report: () => {} }
      const provider = authorizationServer({ ...fixed, ...server })
      service = await testApp(db, { provider: { current: provider }, baseUrl: issuer, sealer, now: Date.now })
    })
    after(async () => {
      mock.restoreAll()
      await service.app.close()
      await db.close()
    })

    const send = (method: string, url: string, payload?: object, by = admin) =>
      service.send({ method: method as 'GET', url, token: by, ...(payload && { payload }) })
    const make = async (url: string, body: object) => {
      const answer = await send('POST', url, body)
      assert.ok(answer.statusCode === 201 || answer.statusCode === 202, `${url} ${answer.body}`)
      return answer.json()
    }
    const task = async (): Promise<string> =>
      (await make('/api/reports', { reportType: 'products', format: 'csv' })).taskId
    const webhook = async (): Promise<string> =>
      (await make('/api/webhooks', { event: 'report.failed', callbackUrl: `http://127.0.0.1:9/made${++count}` })).id
    const deleted = async (path: string, id: number): Promise<number> => {
      assert.equal((await send('DELETE', `${path}/${id}`)).statusCode, 204)
      return id
    }
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
        await send('POST', `/api/reports/${taskId}/cancel`)
        return taskId
      },
      webhook,
      delivery: async () => {
        const id = await webhook()
        return [id, (await make(`/api/webhooks/${id}/test`, {})).id]
      },
      client: async () =>
        (await make('/api/clients', { name: 'Made', scopes: ['reports:read'], grants: ['client_credentials'] })).id,
      key: async () => (await make('/api/keys', { name: 'Made' })).id,
      backup: () => addBackup(db, ++count),
      job: () => addJobRow(db, ++count, 'waiting'),
      failedJob: () => addJobRow(db, ++count, 'failed'),
    }
    /** Requests the first page, follows its `next` link, and then follows the `prev` link. */
    const walk = async (url: string, by = admin) => {
      const targetOf = (link: unknown, rel: string) => new RegExp(`<([^>]+)>; rel="${rel}"`).exec(String(link))?.[1]
      const first = await send('GET', url, undefined, by)
      assert.equal(first.statusCode, 200, `${url} ${first.body}`)
      const next = targetOf(first.headers.link, 'next')
      const second = next && (await send('GET', next, undefined, by))
      const previous = second && targetOf(second.headers.link, 'prev')
      if (previous) assert.equal((await send('GET', previous, undefined, by)).statusCode, 200)
    }
    const noneIsUnbounded = async () => {
      const wrong: string[] = []
      for (const statement of seen.values()) {
        const { text } = statement
        if (!/^\s*(select|update|delete|insert|with)/i.test(text) || scanned.has(text)) continue
        if (/pgboss|pg_|explain/.test(text) || bounded.some(([known]) => known.test(text))) continue
        const problem = await judge(db, statement)
        if (problem !== undefined) wrong.push(`${text}\n    ${problem}`)
      }
      assert.deepEqual(wrong, [])
    }

    it('read a bounded number of rows for the filters and sort orders of lists', async () => {
      const log = `/api/webhooks/${webhookId}/deliveries?limit=3`
      const times = ['', '&since=2020-01-01T00:00:00Z', '&until=2100-01-01T00:00:00Z']
      for (const sort of ['', '&sort=createdAt', '&sort=-createdAt']) {
        for (const status of ['', '&status=pending', '&status=failed', '&status=delivered']) {
          for (const event of ['', '&event=user.deleted', '&event=nothing.happened']) {
            for (const time of times) await walk(log + sort + status + event + time)
          }
        }
      }
      for (const status of ['', '&status=failed', '&status=pending']) {
        for (const type of ['', '&reportType=inventory', '&reportType=none']) {
          for (const format of ['', '&format=csv']) await walk(`/api/reports?limit=3${status}${type}${format}`)
        }
      }
      const conditions = ['&event=key.created', `&clientId=${owner}`, `&subject=${owner}`, `&target=${webhookId}`]
      for (let chosen = 0; chosen < 2 ** conditions.length; chosen++) {
        const some = conditions.filter((_, at) => (chosen >> at) % 2 === 1).join('')
        for (const time of ['', '&from=2020-01-01T00:00:00Z', '&to=2100-01-01T00:00:00Z']) {
          await walk(`/api/audit?limit=3${some}${time}`)
        }
      }
      for (const by of [admin, plain]) await walk('/api/webhooks?limit=3', by)
      await walk('/api/webhooks?status=failing&limit=3')
      for (const query of ['', '&status=failed', '&reportType=inventory']) {
        await walk(`/api/reports?owner=all&limit=3${query}`)
      }
      const jobFilters = ['', '&name=remind', '&status=failed', '&status=unknown', '&name=remind&status=failed']
      for (const query of jobFilters) await walk(`/api/jobs?limit=3${query}`)
      for (const url of ['/api/clients?limit=3', '/api/keys?limit=3', '/api/versions', '/api/nodes', '/api/usage'])
        await walk(url)
      const replays = [{}, { event: 'user.deleted' }, { status: 'failed' }, { status: 'delivered' }]
      for (const body of [...replays, { event: 'report.completed', status: 'failed' }]) {
        await make(`/api/webhooks/${webhookId}/replay`, { since: '2020-01-01T00:00:00Z', ...body })
      }
      assert.deepEqual(service.faults, [])
      await noneIsUnbounded()
    })

    it('read a bounded number of rows on every route of the service', async () => {
      for (const { method, url } of liveRoutes(service.app)) {
        if (method === 'HEAD' || /^\/v\d+\//.test(url)) continue
        const row = matrix[`${method} ${url}`]
        assert.ok(row, `${method} ${url} has no row in test/oauth/matrix.ts`)
        const id = row.id ? await row.id(fixtures) : ''
        const path = [id].flat().reduce((made: string, one) => made.replace(/:\w+/, String(one)), url)
        const answer = await send(method, path, row.body?.(fixtures))
        assert.ok(answer.statusCode < 500, `${method} ${path} ${answer.body}`)
      }
      await noneIsUnbounded()
    })

    it('read a bounded number of rows once the engine has statistics', async () => {
      await db.write(async (tx) => {
        for (const statement of db.engine.statistics.gather) await sql.raw(statement).execute(tx)
      })
      await noneIsUnbounded()
    })

    it('read a bounded number of rows for changing, pausing or deleting a webhook with many deliveries', async () => {
      const patch = { 'content-type': 'application/merge-patch+json' }
      for (const payload of [{ callbackUrl: 'http://127.0.0.1:9/moved' }, { status: 'paused' }, { status: 'active' }]) {
        const url = `/api/webhooks/${webhookId}`
        const answer = await service.send({ method: 'PATCH', url, token: admin, headers: patch, payload })
        assert.equal(answer.statusCode, 200, answer.body)
      }
      assert.equal((await send('DELETE', `/api/webhooks/${webhookId}`)).statusCode, 204)
      await noneIsUnbounded()
    })
  })
})

/** Adds many rows for one client to each growing table, and a webhook with many deliveries; returns the webhook id. */
async function fill(db: Database): Promise<string> {
  const store = { db, sealer, now: Date.now, random: randomBytes }
  const caller = { clientId: owner, subject: owner, scopes: new Set(Object.keys(builtIn.scopes)) }
  const registration = () => newRegistration(store, caller, { event: '*', callbackUrl: 'http://127.0.0.1:9/hook' }).row
  const webhook = registration()
  await db.write((tx) => insert(tx, webhook, store, operator))
  const target = await openTarget(db)
  const lot = { target, tag: 'test', client: { id: owner }, webhook, nowMs: Date.now(), say: () => {} }
  try {
    for (const add of [addBooks, addUsers, addTasks, addDeliveries]) await add(lot, rows)
    await addAudit(lot, db, sealer, rows)
    await addOthers(db)
    await addJobs(db)
    await target.finish()
  } finally {
    await target.close()
  }
  return webhook.id
}

/** Adds webhooks for other owners, and clients and keys, most of which are revoked. */
async function addOthers(db: Database): Promise<void> {
  const instant = (n: number) => new Date(Date.UTC(2026, 0, 1) + n * 1_000).toISOString()
  const revised = (n: number) => ({ revision: 1, sharesSecond: 0, createdAt: instant(n), updatedAt: instant(n) })
  const revoked = (n: number) => ({ revokedAt: n % 10 === 0 ? null : instant(n) })
  const empty = { grants: '', redirectUris: '', postLogoutRedirectUris: '', secretHash: null }
  await db.write(async (tx) => {
    for (let from = 0; from < 3_000; from += 500) {
      const numbers = Array.from({ length: 500 }, (_, at) => from + at)
      const client = { name: 'Other', scopes: 'reports:read', firstParty: 0, trusted: 0, ...empty }
      const clients = numbers.map((n) => ({ id: `cli_${n}`, ...client, ...revised(n), ...revoked(n) }))
      await tx.insertInto('clients').values(clients).execute()
      const key = { name: 'Other', hint: '', rate: null, quota: null, expiresAt: null, lastUsedAt: null }
      const keys = numbers.map((n) => ({ id: `key_${n}`, keyHash: `${n}`, ...key, ...revised(n), ...revoked(n) }))
      await tx.insertInto('apiKeys').values(keys).execute()
    }
    await sql`
      insert into webhooks (id, owner_client, owner_subject, event, callback_url, payload_style, status, secret_sealed,
        revision, created_at, updated_at)
      select 'whk_' || id, id, id, 'report.failed', 'http://127.0.0.1:9/', 'plain', 'active', '', 1, created_at, created_at
      from clients`.execute(tx)
    await sql`insert into delivery_lanes (lane) select id from webhooks where true on conflict do nothing`.execute(tx)
  })
}

/** Adds many jobs with the same name; one in a hundred has failed. */
async function addJobs(db: Database): Promise<void> {
  const at = '2026-01-01T00:00:00.000Z'
  const jobs = Array.from({ length: 5_000 }, (_, n) => {
    const status = n % 100 === 0 ? 'failed' : 'completed'
    const state = { status, dueAt: at, queued: 0, createdAt: at, endedAt: at } as const
    return { id: `job_${String(n).padStart(9, '0')}`, name: 'remind', input: '{}', ...state }
  })
  for (let from = 0; from < jobs.length; from += 500) {
    await db.write((tx) =>
      tx
        .insertInto('declaredJobs')
        .values(jobs.slice(from, from + 500))
        .execute(),
    )
  }
}
