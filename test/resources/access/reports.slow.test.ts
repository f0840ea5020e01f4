import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Definition } from '../../../src/definition/service.ts'
import { folderResults } from '../../../src/files/folder.ts'
import { reportKinds } from '../../../src/mount-versions.ts'
import { createClient } from '../../../src/oauth/clients/clients.ts'
import { addUser } from '../../../src/oauth/users/accounts.ts'
import { Day, Decimal, plinth, Type } from '../../../src/plinth.ts'
import type { Queue } from '../../../src/queue/queue.ts'
import { generate } from '../../../src/reports/generate/generate.ts'
import { type Produce, reportThreads } from '../../../src/reports/generate/report-threads.ts'
import { rowAccess } from '../../../src/row-access.ts'
import { sealer } from '../../../src/storage/encryption.ts'
import type { Task } from '../../../src/storage/tables/tables.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { type EngineUnderTest, forEachEngine } from '../../support/engines.ts'
import { produceHere } from '../../support/reports.ts'
import { unzip } from '../../support/zip.ts'
import { definition, everyone, peopleOn, scopes, type Who } from './tenants.ts'

const idle: Queue = { enqueue: async () => {}, work: () => {}, stop: async () => {} }
const formats = ['csv', 'json', 'ndjson', 'xlsx', 'pdf']

/**
 * Builds the app for a definition. `run` generates a requested report in this thread; `runInThread` generates it in a
 * separate thread, as the worker does.
 */
function reportsOn(engine: EngineUnderTest, of: Definition) {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-access-'))
  const results = folderResults(folder)
  const service = appOn(engine, { definition: of, queue: idle, results })
  after(() => rmSync(folder, { recursive: true }))
  const request = (bearer: string, reportType: string, format = 'ndjson', parameters: object = {}) => {
    const payload = { reportType, format, parameters }
    return service.send({ method: 'POST', url: '/api/reports', payload, token: bearer })
  }
  const ordered = async (...order: Parameters<typeof request>): Promise<string> => {
    const response = await request(...order)
    assert.equal(response.statusCode, 202, response.body)
    return response.json().taskId
  }
  const taskOf = (id: string): Promise<Task> =>
    service.db.read.selectFrom('tasks').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  const runWith = async (produce: Produce, taskId: string, onError: (error: unknown) => void = () => {}) => {
    const { db } = service
    const now = () => service.clock.now
    const services = { db, queue: idle, results, kinds: reportKinds(of), now, random: randomBytes, resultSeconds: 60 }
    const job = { payload: { taskId }, attempt: 1, signal: new AbortController().signal, finish: async () => {} }
    await generate({ ...services, produce, access: rowAccess(of, { db, now }).reportAccess, onError })(job)
    return taskOf(taskId)
  }
  const run = (taskId: string, onError?: (error: unknown) => void) => {
    const produce: Produce = (order, ...more) => produceHere(results, service.db.url)(structuredClone(order), ...more)
    return runWith(produce, taskId, onError)
  }
  const runInThread = (taskId: string) =>
    runWith(reportThreads({ databaseUrl: service.db.url, resultsUrl: `file:${folder}` }).produce, taskId)
  const download = async (bearer: string, taskId: string): Promise<Buffer> => {
    const response = await service.send({ url: `/api/reports/${taskId}/download`, token: bearer })
    assert.equal(response.statusCode, 200, response.body)
    return response.rawPayload
  }
  const lines = async (bearer: string, taskId: string) =>
    String(await download(bearer, taskId))
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))
  return { service, request, ordered, taskOf, run, runInThread, download, lines }
}

forEachEngine((engine) => {
  describe('reports of a resource with access rules', () => {
    const { service, request, ordered, run, runInThread, taskOf, download, lines } = reportsOn(engine, definition)
    let people: Awaited<ReturnType<typeof peopleOn>>
    const as = (who: Who, order: Parameters<TestApp['send']>[0]) =>
      service.send({ token: people.tokens[who], ...order })
    before(async () => {
      people = await peopleOn(service.db, service.clock.now)
      for (const [who, tenant] of [
        ['owner', 'north'],
        ['stranger', 'south'],
        ['machine', 'north'],
      ] as const) {
        const payload = { tenant, text: `${tenant} by ${who}`, pin: '4711', size: 1 }
        const created = await as(who, { method: 'POST', url: '/notes', payload })
        assert.equal(created.statusCode, 201, created.body)
      }
    })
    const texts = { north: ['north by owner', 'north by machine'], south: ['south by stranger'] }
    const textsIn = async (who: Who, taskId: string) =>
      (await lines(people.tokens[who], taskId)).map(({ text }: { text: string }) => text)

    it('contain exactly the rows that the requester may read; for PDF, only their number is checked', async () => {
      for (const format of formats) {
        for (const [who, own, other] of [
          ['colleague', texts.north, texts.south],
          ['stranger', texts.south, texts.north],
        ] as const) {
          const taskId = await ordered(people.tokens[who], 'notes', format)
          assert.equal((await runInThread(taskId)).rowCount, own.length, format)
          const file = await download(people.tokens[who], taskId)
          if (format === 'pdf') continue
          const shown = format === 'xlsx' ? String(unzip(file).get('xl/worksheets/sheet1.xml')) : String(file)
          for (const text of own) assert.ok(shown.includes(text), format)
          for (const text of other) assert.ok(!shown.includes(text), format)
          assert.doesNotMatch(shown, /4711/)
        }
      }
    })

    it('contain the rows that each kind of caller sees in the list, with createdBy', async () => {
      for (const who of everyone) {
        const taskId = await ordered(people.tokens[who], 'notes')
        await run(taskId)
        const listed = (await as(who, { url: '/notes' })).json()
        assert.deepEqual(
          await lines(people.tokens[who], taskId),
          listed.map(({ pin: _, ...note }: { pin?: string }) => note),
          who,
        )
      }
    })

    it('filter and sort only the readable rows', async () => {
      const filtered = await ordered(people.tokens.owner, 'notes', 'ndjson', { filter: { text: texts.south[0] } })
      assert.equal((await run(filtered)).rowCount, 0)
      const sorted = await ordered(people.tokens.owner, 'notes', 'ndjson', { sort: ['-text'] })
      await run(sorted)
      assert.deepEqual(await textsIn('owner', sorted), texts.north)
    })

    it('show their parameters, links and sizes in the list of all reports only to their requester', async () => {
      const taskId = await ordered(people.tokens.owner, 'notes', 'ndjson', { filter: { text: texts.north[0] } })
      await run(taskId)
      const url = '/api/reports?owner=all&limit=200'
      const seenBy = async (bearer: string) =>
        (await service.send({ url, token: bearer })).json().find((task: { taskId: string }) => task.taskId === taskId)
      const { createdAt, startedAt, completedAt, expiresAt, ...task } = await seenBy(people.tokens.admin)
      assert.ok(createdAt && startedAt && completedAt && expiresAt)
      const owner = { ownerClient: 'cli_app', ownerSubject: String(people.ids.owner) }
      const state = { status: 'completed', progress: 100, attempts: 1 }
      assert.deepEqual(task, { taskId, reportType: 'notes', format: 'ndjson', ...state, ...owner, _links: {} })
      const own = await seenBy(token(`${scopes} admin`, 'cli_app', String(people.ids.owner)))
      assert.deepEqual([own.parameters.filter, own.rowCount], [{ text: texts.north[0] }, 1])
      assert.ok(own._links.download.href)
    })

    it("are generated with the requester's claims at the time of each run, including a retry", async () => {
      const taskId = await ordered(people.tokens.colleague, 'notes')
      await people.move('colleague', 'south')
      service.clock.now += 5_000
      await run(taskId)
      assert.deepEqual(await textsIn('colleague', taskId), texts.south)
      await people.move('colleague', 'north')
      service.clock.now += 5_000
      assert.deepEqual(await textsIn('colleague', taskId), texts.south)
      const retried = await as('colleague', { method: 'POST', url: `/api/reports/${taskId}/retry` })
      assert.equal(retried.statusCode, 202)
      await run(retried.json().taskId)
      assert.deepEqual(await textsIn('colleague', retried.json().taskId), texts.north)
    })

    it("evaluate may() with the scopes that both the requesting token and the user's role grant", async () => {
      const payload = { text: 'for few' }
      assert.equal((await as('admin', { method: 'POST', url: '/secrets', payload })).statusCode, 201)
      const countFor = async (bearer: string) => (await run(await ordered(bearer, 'secrets'))).rowCount
      const { ids, tokens } = people
      assert.equal(await countFor(tokens.admin), 1)
      assert.equal(await countFor(tokens.machine), 0)
      assert.equal(await countFor(token(`${scopes} admin`, 'cli_app', String(ids.auditor))), 1)
      assert.equal(await countFor(token(`${scopes} admin`, 'cli_app', String(ids.owner))), 0)
    })

    it('fail with ACCESS_DENIED if the client lost the scope or the user was deleted after the request', async () => {
      const seal = sealer(Buffer.alloc(32, 1), randomBytes)
      const client = { id: 'crm_stored', name: 'Stored', scopes: scopes.split(' '), grants: ['client_credentials'] }
      await createClient(service.db, seal, definition.scopes, client)
      const ofClient = await ordered(token(scopes, 'crm_stored'), 'notes')
      await service.db.write((tx) =>
        tx.updateTable('clients').set({ scopes: 'reports:read' }).where('id', '=', 'crm_stored').execute(),
      )
      assert.equal((await run(ofClient)).errorCode, 'ACCESS_DENIED')
      const userId = await service.db.write((tx) => addUser(tx, 'Leaver', 'leaver@example.com', service.clock.now))
      const ofUser = () => ordered(token(scopes, 'cli_app', String(userId)), 'notes')
      const before = await ofUser()
      assert.equal((await run(before)).status, 'completed')
      const after = await ofUser()
      await service.db.write((tx) => tx.deleteFrom('users').where('id', '=', userId).execute())
      assert.equal((await run(after)).errorCode, 'ACCESS_DENIED')
    })

    it('404 for any user or client other than those that requested the report, even with the scope admin', async () => {
      const taskId = await ordered(people.tokens.owner, 'notes')
      await run(taskId)
      const url = `/api/reports/${taskId}`
      const routes = [
        ...['', '/status', '/events', '/download'].map((part) => ({ method: 'GET', url: url + part }) as const),
        ...['/cancel', '/retry'].map((part) => ({ method: 'POST', url: url + part }) as const),
        { method: 'DELETE', url } as const,
      ]
      const elsewhere = token(`${scopes} admin`, 'cli_other', String(people.ids.owner))
      for (const bearer of [people.tokens.admin, people.tokens.colleague, people.tokens.auditor, elsewhere]) {
        for (const route of routes) {
          assert.equal(
            (await service.send({ ...route, token: bearer })).statusCode,
            404,
            `${route.method} ${route.url}`,
          )
        }
        const listed = await service.send({ url: '/api/reports?limit=200', token: bearer })
        assert.ok(!listed.body.includes(taskId))
      }
      assert.equal((await as('owner', { url })).statusCode, 200)
      const activity = await ordered(people.tokens.owner, 'activity')
      assert.equal((await as('admin', { url: `/api/reports/${activity}` })).statusCode, 200)
      assert.equal((await as('owner', { method: 'DELETE', url })).statusCode, 204)
    })

    it('404 for a report requested before its resource had access rules; the report fails with ACCESS_DENIED', async () => {
      const taskId = await ordered(people.tokens.owner, 'notes')
      await service.db.write((tx) =>
        tx
          .updateTable('tasks')
          .set({ scopes: null } as never)
          .where('id', '=', taskId)
          .execute(),
      )
      for (const who of ['owner', 'admin'] as const) {
        assert.equal((await as(who, { url: `/api/reports/${taskId}` })).statusCode, 404)
      }
      assert.equal((await run(taskId)).errorCode, 'ACCESS_DENIED')
    })

    it('403 for a request without the read scope, 422 for one with a write-only field in its parameters', async () => {
      const refused = await request(token('reports:write', 'crm_north'), 'notes')
      assert.deepEqual([refused.statusCode, refused.json().errorCode], [403, 'ACCESS_DENIED'])
      for (const parameters of [{ filter: { pin: '4711' } }, { fields: ['pin'] }, { sort: ['pin'] }]) {
        assert.equal((await request(people.tokens.owner, 'notes', 'csv', parameters)).statusCode, 422)
      }
      const types = (await as('owner', { url: '/api/report-types' })).json()
      const { columns, scope } = types.find(({ reportType }: { reportType: string }) => reportType === 'notes')
      assert.equal(scope, 'notes:read')
      const names = columns.map(({ name }: { name: string }) => name)
      assert.ok(names.includes('createdBy') && !names.includes('pin'))
      assert.equal((await taskOf(await ordered(people.tokens.owner, 'activity'))).scopes, null)
    })
  })

  describe('reports under access rules on fields of every type', () => {
    let rule: unknown = true
    const { collection, service: serviceOf } = plinth({ claims: () => ({}) })
    const samples = collection({
      path: '/samples',
      noun: 'sample',
      body: Type.Object({
        name: Type.String({ maxLength: 40 }),
        state: Type.Optional(Type.Enum(['open', 'done'])),
        size: Type.Optional(Type.Integer()),
        weight: Type.Optional(Type.Number()),
        amount: Type.Optional(Decimal(18, 2)),
        due: Type.Optional(Day),
        isOpen: Type.Optional(Type.Boolean()),
      }),
      filters: ['name'],
      access: () => {
        if (rule === 'throws') throw new Error('a mistake in a rule')
        return rule as boolean
      },
    })
    const of = serviceOf({ resources: [samples] })
    const { service, request, ordered, run, lines } = reportsOn(engine, of)
    const bearer = token(Object.keys(of.scopes).join(' '), 'crm_one')

    it('contain the same rows as the list', async () => {
      rule = true
      for (const payload of [
        {
          name: 'one',
          state: 'open',
          size: 1,
          weight: 0.5,
          amount: '9999999999999999.99',
          due: '2026-01-01',
          isOpen: true,
        },
        { name: 'Two', state: 'done', size: 2, weight: 2.5, amount: '-0.01', due: '2030-01-01', isOpen: false },
        { name: 'three\u00a0%', size: -3 },
        { name: 'One', state: 'open', weight: 1e21, amount: '12.50' },
      ]) {
        const created = await service.send({ method: 'POST', url: '/samples', payload, token: bearer })
        assert.equal(created.statusCode, 201, created.body)
      }
      const conditions = [
        ...[true, false, { name: 'one' }, { name: { prefix: 'three' } }, { name: { in: ['Two', 'three\u00a0%'] } }],
        ...[{ state: { not: 'open' } }, { state: { null: true } }, { size: { from: -3, before: 2 } }, { size: 2 }],
        ...[
          { weight: { after: 0.5 } },
          { weight: 1e21 },
          { amount: { from: '12.50' } },
          { amount: '9999999999999999.99' },
        ],
        ...[{ amount: { before: '0.00' } }, { due: { before: 'today' } }, { isOpen: true }, { isOpen: { not: true } }],
        ...[{ id: { in: [1, 3] } }, { createdBy: 'client:crm_one' }, { createdBy: 'client:crm_two' }],
        { any: [{ name: "o'one" }, { all: [{ size: { null: false } }, { amount: { null: true } }] }] },
      ]
      for (const condition of conditions) {
        rule = condition
        const listed = (await service.send({ url: '/samples', token: bearer })).json()
        const idsOf = (rows: { id: number }[]) => rows.map(({ id }) => id)
        const taskId = await ordered(bearer, 'samples')
        await run(taskId)
        assert.deepEqual(idsOf(await lines(bearer, taskId)), idsOf(listed), JSON.stringify(condition))
      }
    })

    it('500 for a report request if a rule throws; a report requested earlier fails with INTERNAL_ERROR on its third run', async () => {
      rule = true
      const taskId = await ordered(bearer, 'samples')
      rule = 'throws'
      const refused = await request(bearer, 'samples', 'pdf')
      assert.equal(refused.statusCode, 500)
      assert.equal(service.faults.splice(0).length, 1)
      const errors: unknown[] = []
      const onError = (error: unknown) => errors.push(error)
      for (let attempt = 1; attempt < 3; attempt++) {
        await assert.rejects(run(taskId, onError), /The access rules of \/samples failed/)
      }
      assert.deepEqual([(await run(taskId, onError)).errorCode, errors.length], ['INTERNAL_ERROR', 1])
      rule = true
    })
  })
})
