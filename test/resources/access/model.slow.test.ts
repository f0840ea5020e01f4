import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { reportKinds } from '../../../src/mount-versions.ts'
import { plinth, Type } from '../../../src/plinth.ts'
import { readOf, requesterFor, type ServedReport } from '../../../src/reports/report-types.ts'
import { rowAccess } from '../../../src/row-access.ts'
import type { Database } from '../../../src/storage/database.ts'
import { openSnapshot } from '../../../src/storage/open.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { fanOutAll } from './fan-out.ts'

type Note = { tenant?: string; level?: number; isOpen?: boolean }
type Row = Note & { id: number; createdBy: string }
/** A generated condition: `me` stands for the caller's id, `mine` for the caller's tenant. */
type Rule = boolean | { [field: string]: unknown }

let rules: { read: Rule; write: Rule } = { read: true, write: true }
const tenantOf = (id: string) => id.split('_')[1]

/** Replaces the placeholders in a rule with the caller's id and tenant. */
function forCaller(rule: unknown, me: string): unknown {
  if (rule === 'me') return `client:${me}`
  if (rule === 'mine') return tenantOf(me)
  if (Array.isArray(rule)) return rule.map((part) => forCaller(part, me))
  if (typeof rule !== 'object' || rule === null) return rule
  return Object.fromEntries(Object.entries(rule).map(([name, value]) => [name, forCaller(value, me)]))
}

const { collection, service } = plinth({ claims: ({ client }) => ({ me: client.id }) })
const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({
    tenant: Type.Optional(Type.String({ maxLength: 40 })),
    level: Type.Optional(Type.Integer()),
    isOpen: Type.Optional(Type.Boolean()),
  }),
  filters: ['tenant', 'level', 'isOpen'],
  access: {
    read: ({ claims }) => forCaller(rules.read, claims.me) as boolean,
    write: ({ claims }) => forCaller(rules.write, claims.me) as boolean,
  },
})
const definition = service({ resources: [notes] })
const scopes = Object.keys(definition.scopes).join(' ')

/** The naive model: decides whether a row meets a rule, independently of the code under test. */
function meets(rule: unknown, row: Row): boolean {
  if (typeof rule === 'boolean') return rule
  return Object.entries(rule as object).every(([name, wanted]) => {
    if (name === 'any') return (wanted as unknown[]).some((part) => meets(part, row))
    if (name === 'all') return (wanted as unknown[]).every((part) => meets(part, row))
    const value = row[name as keyof Row]
    if (typeof wanted !== 'object' || wanted === null)
      return wanted !== undefined && wanted !== null && value === wanted
    const [[operator, operand] = []] = Object.entries(wanted)
    if (operand === undefined || operand === null) return false
    if (operator === 'null') return (value === undefined) === operand
    if (operator === 'not') return value !== operand
    if (value === undefined) return false
    if (operator === 'in') return (operand as unknown[]).includes(value)
    if (operator === 'prefix') return String(value).startsWith(operand as string)
    return operator === 'from' ? Number(value) >= Number(operand) : Number(value) < Number(operand)
  })
}

const callers = ['crm_north', 'crm_south', 'crm_North', 'lone']
const tenant = fc.constantFrom('north', 'south', 'North', 'northern')
const comparison: fc.Arbitrary<Rule> = fc.oneof(
  fc.record({ tenant: fc.oneof(tenant, fc.constant('mine')) }),
  fc.record({ tenant: fc.record({ in: fc.array(fc.oneof(tenant, fc.constant('mine')), { maxLength: 3 }) }) }),
  fc.record({ tenant: fc.record({ not: fc.oneof(tenant, fc.constant('mine')) }) }),
  fc.record({ tenant: fc.record({ prefix: fc.constantFrom('n', 'nor', 'N') }) }),
  fc.record({ tenant: fc.record({ null: fc.boolean() }) }),
  fc.record({ level: fc.integer({ min: 0, max: 3 }) }),
  fc.record({ level: fc.record({ from: fc.integer({ min: 0, max: 3 }) }) }),
  fc.record({ level: fc.record({ before: fc.integer({ min: 0, max: 3 }) }) }),
  fc.record({ isOpen: fc.boolean() }),
  fc.constant({ createdBy: 'me' }),
)
const condition = (depth: number): fc.Arbitrary<Rule> =>
  depth === 0
    ? comparison
    : fc.oneof(
        comparison,
        fc.record({ any: fc.array(condition(depth - 1), { maxLength: 3 }) }),
        fc.record({ all: fc.array(condition(depth - 1), { minLength: 1, maxLength: 3 }) }),
      )
const rule = fc.oneof({ weight: 6, arbitrary: condition(3) }, { weight: 1, arbitrary: fc.boolean() })

const body = fc.record(
  { tenant, level: fc.integer({ min: 0, max: 3 }), isOpen: fc.boolean() },
  { requiredKeys: [] },
) as fc.Arbitrary<Note>
const caller = fc.constantFrom(...callers)
const at = fc.nat(20)
const operation = fc.oneof(
  fc.record({ kind: fc.constant('create' as const), caller, body }),
  fc.record({ kind: fc.constant('read' as const), caller, at }),
  fc.record({
    kind: fc.constant('list' as const),
    caller,
    query: fc.constantFrom('', 'tenant=north', 'level=1', 'sort=-id'),
  }),
  fc.record({ kind: fc.constant('replace' as const), caller, at, body }),
  fc.record({ kind: fc.constant('patch' as const), caller, at, body }),
  fc.record({ kind: fc.constant('remove' as const), caller, at }),
  fc.record({ kind: fc.constant('report' as const), caller }),
)
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never

const registration = fc.record({
  caller,
  event: fc.constantFrom('*', 'note.*', 'note.created', 'note.updated', 'note.deleted'),
})
type Registration = typeof registration extends fc.Arbitrary<infer T> ? T : never

/** A change that causes an event, with the row that its receivers must be able to read. */
interface Change {
  type: string
  row: Row
}
let changes: Change[] = []

const runs = Number(process.env.RUNS ?? 60)

forEachEngine((engine) => {
  describe('a resource with random access rules', () => {
    const app = appOn(engine, { definition })

    it('gives every caller the same rows as a naive in-memory model', async () => {
      const property = fc.asyncProperty(
        rule,
        rule,
        fc.array(operation, { minLength: 5, maxLength: 25 }),
        fc.uniqueArray(registration, { maxLength: 6, selector: ({ caller, event }) => `${caller} ${event}` }),
        fc.option(rule),
        async (read, write, operations, registrations, readLater) => {
          for (const table of ['resourceNotes', 'deliveries', 'events', 'webhooks'] as const) {
            await app.db.write((tx) => tx.deleteFrom(table as 'products').execute())
          }
          changes = []
          const registered = await register(app, registrations)
          const rows = new Map<number, Row>()
          rules = { read: true, write: true }
          for (const who of callers) await createdBy(app, rows, who, { tenant: tenantOf(who) ?? 'north', level: 1 })
          rules = { read, write }
          for (const step of operations) await checkStep(app, rows, step)
          if (readLater !== null) rules.read = readLater
          await checkDeliveries(app, registered)
        },
      )
      await fc.assert(property, { numRuns: runs, ...(process.env.SEED && { seed: Number(process.env.SEED) }) })
    })
  })
})

const send = (app: TestApp, who: string, request: Parameters<TestApp['send']>[0]) =>
  app.send({ token: token(scopes, who), ...request })

async function createdBy(app: TestApp, rows: Map<number, Row>, who: string, payload: Note): Promise<void> {
  const created = await send(app, who, { method: 'POST', url: '/notes', payload })
  assert.equal(created.statusCode, 201, created.body)
  const { id } = created.json()
  const row = { id, ...payload, createdBy: `client:${who}` }
  rows.set(id, row)
  changes.push({ type: 'note.created', row })
}

/** Registers webhooks and returns the ids of their owners. */
async function register(app: TestApp, registrations: readonly Registration[]): Promise<Map<string, Registration>> {
  const registered = new Map<string, Registration>()
  for (const one of registrations) {
    const payload = { event: one.event, callbackUrl: `http://127.0.0.1:9/${one.event.length}` }
    const created = await send(app, one.caller, { method: 'POST', url: '/api/webhooks', payload })
    assert.equal(created.statusCode, 201, created.body)
    registered.set(created.json().id, one)
  }
  return registered
}

/** Fans out every event and compares the deliveries with those that the current rules allow. */
async function checkDeliveries(app: TestApp & { db: Database }, registered: ReadonlyMap<string, Registration>) {
  const deliveries = await fanOutAll(app, definition)
  const delivered = deliveries.map(({ webhookId, eventType, body }) => [webhookId, eventType, JSON.parse(body).id])
  const expected = [...registered].flatMap(([id, { caller, event }]) =>
    changes
      .filter(({ type }) => event === '*' || event === type || event === 'note.*')
      .filter(({ row }) => meets(forCaller(rules.read, caller), row))
      .map(({ type, row }) => [id, type, row.id]),
  )
  assert.deepEqual(delivered.map(String).sort(), expected.map(String).sort())
}

/** The ids in a caller's report. */
async function reportedTo(db: Database, now: () => number, who: string): Promise<unknown[]> {
  const [kind] = reportKinds(definition) as [ServedReport]
  const asker = { clientId: who, subject: who, scopes: new Set(scopes.split(' ')) }
  const requester = await requesterFor(kind, rowAccess(definition, { db, now }).reportAccess, asker)
  const snapshot = await openSnapshot(db.url)
  const pages = await Array.fromAsync(snapshot.pages(readOf(db, kind, {}, requester))).finally(snapshot.close)
  return pages.flat().map(([id]) => Number(id))
}

/** Sends one request and compares the response with the model, which it updates. */
async function checkStep(app: TestApp & { db: Database }, rows: Map<number, Row>, step: Operation): Promise<void> {
  const who = step.caller
  const canRead = (row: Row) => meets(forCaller(rules.read, who), row)
  const canWrite = (row: Row) => canRead(row) && meets(forCaller(rules.write, who), row)
  if (step.kind === 'create') {
    const allowed = canWrite({ id: 0, ...step.body, createdBy: `client:${who}` })
    if (allowed) return createdBy(app, rows, who, step.body)
    const refused = await send(app, who, { method: 'POST', url: '/notes', payload: step.body })
    return assert.equal(refused.statusCode, 403)
  }
  if (step.kind === 'list') {
    const headers = { prefer: 'count=exact' }
    const listed = await send(app, who, { url: `/notes?limit=200&${step.query}`, headers })
    const [name, value] = step.query.split('=')
    const matching = (row: Row) =>
      name !== 'tenant' && name !== 'level' ? true : String(row[name] ?? '').toLowerCase() === value
    const expected = [...rows.values()].filter((row) => canRead(row) && matching(row)).map(({ id }) => id)
    if (name === 'sort') expected.reverse()
    assert.deepEqual(
      listed.json().map(({ id }: Row) => id),
      expected,
    )
    return assert.equal(listed.headers['x-total-count'], String(expected.length))
  }
  if (step.kind === 'report') {
    const readable = [...rows.values()].filter(canRead).map(({ id }) => id)
    return assert.deepEqual(await reportedTo(app.db, () => app.clock.now, who), readable)
  }
  const ids = [...rows.keys()]
  const row = rows.get(ids[step.at % ids.length] as number)
  if (row === undefined) return
  const url = `/notes/${row.id}`
  const expected = (changed: Row | null): number => {
    if (!canRead(row)) return 404
    if (!canWrite(row)) return 403
    return changed === null || canWrite(changed) ? 200 : 403
  }
  if (step.kind === 'read') {
    const response = await send(app, who, { url })
    return assert.equal(response.statusCode, canRead(row) ? 200 : 404)
  }
  if (step.kind === 'remove') {
    const response = await send(app, who, { method: 'DELETE', url })
    const status = expected(null)
    assert.equal(response.statusCode, status === 200 ? 204 : status)
    if (status !== 200) return
    rows.delete(row.id)
    return void changes.push({ type: 'note.deleted', row })
  }
  const { id, createdBy: creator } = row
  const changed = step.kind === 'replace' ? { id, createdBy: creator, ...step.body } : { ...row, ...step.body }
  const type = step.kind === 'patch' ? { 'content-type': 'application/merge-patch+json' } : {}
  const method = step.kind === 'patch' ? 'PATCH' : 'PUT'
  const response = await send(app, who, { method, url, payload: step.body, headers: type })
  const status = expected(changed)
  assert.equal(response.statusCode, status)
  if (status !== 200) return
  rows.set(id, changed)
  changes.push({ type: 'note.updated', row: changed })
}
