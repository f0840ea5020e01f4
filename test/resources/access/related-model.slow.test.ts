import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { rowFacts } from '../../../src/resources/access/row-facts.ts'
import { accessFor } from '../../../src/resources/access/rules.ts'
import { rowPasses } from '../../../src/resources/conditions/conditions.ts'
import type { Declaration } from '../../../src/resources/declaration.ts'
import type { Database } from '../../../src/storage/database.ts'
import { migrate } from '../../../src/storage/migrate.ts'
import { type TestApp, testApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import {
  canRead,
  canWrite,
  definitionOf,
  type Model,
  modelOf,
  type Name,
  names,
  type Row,
  related,
  rulesFor,
  type Shapes,
  shapes,
  tenants,
} from './related-model.ts'

/** SEED reproduces a run; RUNS is the number of cases per definition. */
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))
const definitions = Number(process.env.DEFINITIONS ?? 3)
const runs = Number(process.env.RUNS ?? 5)

const callers = ['crm_north', 'crm_south', 'app_north', 'lone']
const caller = fc.constantFrom(...callers)
const name = fc.constantFrom(...names)
const at = fc.nat(30)
const body = fc.record(
  { tenant: fc.constantFrom(...tenants), level: fc.integer({ min: 0, max: 2 }) },
  { requiredKeys: [] },
)
/** For each relation, a number that selects the referenced row. */
const links = fc.record({ region: at, upper: at, customer: at, payer: at, invoice: at }, { requiredKeys: [] })
const filter = fc.constantFrom(
  ...['tenant=north', 'level=1', 'tenant[not]=south', 'level[from]=1', 'tenant[null]=true', 'tenant[in]=north,south'],
)
const operation = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('create' as const), caller, name, body, links, isMissing: fc.nat(9) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('read' as const), caller, name, at }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('list' as const), caller, name, filter, along: fc.nat(3) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('nested' as const), caller, name, at }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('replace' as const), caller, name, at, body, links }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('patch' as const), caller, name, at, body, links }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('remove' as const), caller, name, at }) },
)
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never
type Step<Kind extends Operation['kind']> = Extract<Operation, { kind: Kind }>

forEachEngine((engine) => {
  describe(`resources with random references and access rules, seed ${seed}`, () => {
    for (const [number, drawn] of fc.sample(shapes, { seed, numRuns: definitions }).entries()) {
      it(`give every caller the same responses as a naive in-memory model: definition ${number + 1}`, async () => {
        const rules = {} as Model['rules']
        const definition = definitionOf(drawn, rules)
        const scopes = Object.keys(definition.scopes).join(' ')
        const declarations = definition.collections.map(({ declaration }) => declaration)
        const db = await engine.database()
        await migrate(db, { tables: definition.tables })
        const app = await testApp(db, { prefixes: [''], definition })
        const cases = fc.asyncProperty(
          rulesFor(drawn),
          fc.array(operation, { minLength: 10, maxLength: 40 }),
          async (generated, operations) => {
            const on = { app, db, scopes, declarations, model: modelOf(drawn, rules) }
            await seedRows(on)
            Object.assign(rules, generated)
            for (const step of operations) await take(on, step)
          },
        )
        try {
          await fc.assert(cases, { seed, numRuns: runs })
        } finally {
          await app.app.close()
          await db.close()
        }
        assert.deepEqual(app.faults, [])
      })
    }
  })
})

/** The service under test, and the model. Each check compares the two, and updates the model. */
interface Context {
  app: TestApp
  db: Database
  model: Model
  scopes: string
  declarations: readonly Declaration[]
}

/** Empties the tables and stores some rows, while the rules allow everything. */
async function seedRows(on: Context): Promise<void> {
  await on.db.write(async (tx) => {
    for (const name of names.toReversed()) await tx.deleteFrom(`resource_${name}` as 'products').execute()
  })
  for (const name of names) on.model.rules[name] = { read: true, write: true }
  for (const [position, who] of callers.entries()) {
    for (const name of names) {
      const tenant = tenants[position % tenants.length] ?? 'north'
      const links = { region: position, customer: position, invoice: position, payer: position + 1 }
      await created(on, {
        kind: 'create',
        caller: who,
        name,
        body: { tenant, level: position % 3 },
        links,
        isMissing: 1,
      })
    }
  }
}

async function take(on: Context, step: Operation): Promise<void> {
  const checks = {
    create: (one: Step<'create'>) => created(on, one),
    read: (one: Step<'read'>) => read(on, one),
    list: (one: Step<'list'>) => listed(on, one),
    nested: (one: Step<'nested'>) => nested(on, one),
    replace: (one: Step<'replace'>) => changed(on, one),
    patch: (one: Step<'patch'>) => changed(on, one),
    remove: (one: Step<'remove'>) => removed(on, one),
  }
  await checks[step.kind](step as never)
}

function send(on: Context, who: string, request: Parameters<TestApp['send']>[0]) {
  return on.app.send({ token: token(on.scopes, who), ...request })
}

function rowAt(on: Context, name: Name, at: number): Row | undefined {
  const rows = [...on.model.rows[name].values()]
  return rows[at % rows.length]
}

/** Returns the ids that a request sends for a collection's references; required references always have an id. */
function references(
  on: Context,
  name: Name,
  links: Partial<Record<string, number>>,
  isMissing = false,
): Record<string, number> {
  const entries = Object.entries(on.model.shapes[name].links).flatMap(([relation, { to, isRequired }]) => {
    const wanted = links[relation] ?? (isRequired ? 0 : undefined)
    if (wanted === undefined) return []
    const row = rowAt(on, to, wanted)
    return [[`${relation}Id`, isMissing || row === undefined ? 999_999 : row.id]]
  })
  return Object.fromEntries(entries)
}

/** Returns true if the caller may refer to all of these rows. */
function canRefer(
  on: Context,
  name: Name,
  sent: Row | Record<string, unknown>,
  before: Record<string, unknown>,
  who: string,
) {
  return Object.entries(on.model.shapes[name].links).every(([relation, { to }]) => {
    const field = `${relation}Id`
    const id = sent[field]
    if (id === undefined || id === before[field]) return true
    const row = on.model.rows[to].get(id as number)
    return row !== undefined && canRead(on.model, to, row, who)
  })
}

async function created(on: Context, { name, caller, body, links, isMissing }: Step<'create'>): Promise<void> {
  const payload = { ...body, ...references(on, name, links, isMissing === 0) }
  const response = await send(on, caller, { method: 'POST', url: `/${name}`, payload })
  const creator = on.model.shapes[name].access === 'none' ? {} : { createdBy: `client:${caller}` }
  const row: Row = { id: 0, ...payload, ...creator }
  const expected = canRefer(on, name, payload, {}, caller) ? (canWrite(on.model, name, row, caller) ? 201 : 403) : 422
  assert.equal(response.statusCode, expected, response.body)
  if (expected === 422) assertMissing(response.json(), payload)
  if (expected === 201) on.model.rows[name].set(response.json().id, { ...row, id: response.json().id })
}

/** The message for an unreadable row must equal that for a missing row. */
function assertMissing({ errors }: { errors: { field: string; message: string }[] }, payload: object): void {
  assert.ok(errors.length > 0)
  for (const { field, message } of errors) {
    const id = (payload as Record<string, number>)[field]
    assert.match(message, new RegExp(`^refers to no \\w+: there is no ${id}$`))
  }
}

async function read(on: Context, { name, caller, at }: Step<'read'>): Promise<void> {
  const row = rowAt(on, name, at)
  if (row === undefined) return
  const expand = expandable(on, name)
  const query = expand.length > 0 ? `?expand=${expand.join()}` : ''
  for (const url of [`/${name}/${row.id}`, `/${name}/${row.id}${query}`]) {
    const response = await send(on, caller, { url })
    assert.equal(response.statusCode, canRead(on.model, name, row, caller) ? 200 : 404, response.body)
    if (response.statusCode === 200 && url.includes('?')) assertExpanded(on, name, row, caller, response.json())
  }
  await assertFacts(on, name, row, caller)
}

/**
 * Returns the paths that `expand` accepts: the references, the references of their rows, and the collections that have a
 * single reference to this one.
 */
function expandable(on: Context, name: Name): string[] {
  const toOne = Object.entries(on.model.shapes[name].links)
  const further = toOne.flatMap(([relation, { to }]) =>
    Object.keys(on.model.shapes[to].links).map((next) => `${relation}.${next}`),
  )
  return [...toOne.map(([relation]) => relation), ...further, ...children(on, name).map(([child]) => child)]
}

/** Returns the collections that have a single reference to this one, each with its relation. */
function children(on: Context, name: Name): [Name, string][] {
  return names.flatMap((child) => {
    const fields = Object.entries(on.model.shapes[child].links).filter(([, { to }]) => to === name)
    const [[relation] = ['']] = fields
    return fields.length === 1 ? [[child, relation] as [Name, string]] : []
  })
}

function assertExpanded(
  on: Context,
  name: Name,
  row: Row,
  who: string,
  shown: Record<string, unknown>,
  depth = 1,
): void {
  for (const [relation, { to }] of Object.entries(on.model.shapes[name].links)) {
    const other = related(on.model, name, relation, row)
    const isShown = other !== undefined && canRead(on.model, to, other, who)
    const member = shown[relation] as Record<string, unknown> | null
    assert.equal(member?.id ?? null, isShown ? other.id : null, `${name} ${relation}`)
    if (isShown && depth === 1) assertExpanded(on, to, other, who, member as Record<string, unknown>, 2)
  }
  if (depth > 1) return
  for (const [child, relation] of children(on, name)) {
    const ids = (shown[child] as Row[]).map(({ id }) => id)
    assert.deepEqual(ids, childrenOf(on, row, child, relation, who), child)
  }
}

function childrenOf(on: Context, row: Row, child: Name, relation: string, who: string): number[] {
  const children = [...on.model.rows[child].values()].filter((one) => one[`${relation}Id`] === row.id)
  return children.filter((one) => canRead(on.model, child, one, who)).map(({ id }) => id)
}

/** Asserts that the read rule, evaluated on row facts in memory, agrees with the model. */
async function assertFacts(on: Context, name: Name, row: Row, who: string): Promise<void> {
  const declaration = on.declarations.find((one) => one.name === name) as Declaration
  if (declaration.access === undefined) return
  const facts = await rowFacts(declaration, on.declarations)(on.db.read, row)
  const sender = { clientId: who, subject: who, scopes: new Set<string>() }
  const access = accessFor(declaration.access, sender, { client: { id: who, labels: {} } }, () => '2026-03-01')
  assert.equal(
    rowPasses(access.read, facts, declaration.access),
    canRead(on.model, name, row, who),
    JSON.stringify(facts),
  )
}

async function listed(on: Context, { name, caller, filter, along }: Step<'list'>): Promise<void> {
  const relation = Object.keys(on.model.shapes[name].links)[along - 1]
  const query = along === 0 ? '' : relation === undefined ? filter : `${relation}.${filter}`
  const headers = { prefer: 'count=exact' }
  const matching = (row: Row) => {
    if (along === 0 || relation === undefined) return along === 0 || meetsFilter(filter, row)
    const { to } = on.model.shapes[name].links[relation] as { to: Name }
    const other = related(on.model, name, relation, row)
    return other !== undefined && canRead(on.model, to, other, caller) && meetsFilter(filter, other)
  }
  const expected = [...on.model.rows[name].values()]
    .filter((row) => canRead(on.model, name, row, caller) && matching(row))
    .map(({ id }) => id)
  for (const sort of ['', '&sort=-id']) {
    // Send each request twice, so that the second response may come from the page cache.
    for (let round = 0; round < 2; round++) {
      const listed = await send(on, caller, { url: `/${name}?limit=200&${query}${sort}`, headers })
      assert.equal(listed.statusCode, 200, listed.body)
      const ids = listed.json().map(({ id }: Row) => id)
      assert.deepEqual(sort ? ids.reverse() : ids, expected, query)
      assert.equal(listed.headers['x-total-count'], String(expected.length))
    }
  }
  const expand = expandable(on, name).join()
  if (expand === '') return
  for (const who of [caller, ...callers]) {
    const { statusCode, body } = await send(on, who, { url: `/${name}?limit=200&expand=${expand}` })
    assert.equal(statusCode, 200, body)
    for (const item of JSON.parse(body)) {
      assertExpanded(on, name, on.model.rows[name].get(item.id) as Row, who, item)
    }
  }
}

async function nested(on: Context, { name, caller, at }: Step<'nested'>): Promise<void> {
  const row = rowAt(on, name, at)
  if (row === undefined) return
  for (const [child, relation] of children(on, name)) {
    const listed = await send(on, caller, { url: `/${name}/${row.id}/${child}?limit=200` })
    const isReadable = canRead(on.model, name, row, caller)
    assert.equal(listed.statusCode, isReadable ? 200 : 404, listed.body)
    if (!isReadable) continue
    const ids = listed.json().map(({ id }: Row) => id)
    assert.deepEqual(ids, childrenOf(on, row, child, relation, caller))
  }
}

async function changed(on: Context, { kind, name, caller, at, body, links }: Step<'replace' | 'patch'>): Promise<void> {
  const row = rowAt(on, name, at)
  if (row === undefined) return
  const sent = references(on, name, links)
  const payload: Record<string, unknown> = { ...body, ...sent }
  const { id, createdBy } = row
  const kept = kind === 'patch' ? row : { id, ...(createdBy !== undefined && { createdBy }) }
  const changed: Row = { ...kept, ...payload }
  const response = await send(on, caller, {
    method: kind === 'patch' ? 'PATCH' : 'PUT',
    url: `/${name}/${id}`,
    payload,
    ...(kind === 'patch' && { headers: { 'content-type': 'application/merge-patch+json' } }),
  })
  const expected = () => {
    if (!canRead(on.model, name, row, caller)) return 404
    if (!canWrite(on.model, name, row, caller)) return 403
    if (!canRefer(on, name, changed, row, caller)) return 422
    return isWritableAs(on, name, changed, caller) ? 200 : 403
  }
  const status = expected()
  assert.equal(response.statusCode, status, response.body)
  if (status === 422) assertMissing(response.json(), payload)
  if (status === 200) on.model.rows[name].set(id, changed)
}

/**
 * Evaluates the write rule on a changed row. Meanwhile, the model contains the change, because the row may refer to
 * itself.
 */
function isWritableAs(on: Context, name: Name, changed: Row, who: string): boolean {
  const rows = on.model.rows[name]
  const before = rows.get(changed.id) as Row
  rows.set(changed.id, changed)
  const isWritable = canWrite(on.model, name, changed, who)
  rows.set(changed.id, before)
  return isWritable
}

async function removed(on: Context, { name, caller, at }: Step<'remove'>): Promise<void> {
  const row = rowAt(on, name, at)
  if (row === undefined) return
  const response = await send(on, caller, { method: 'DELETE', url: `/${name}/${row.id}` })
  if (!canWrite(on.model, name, row, caller)) {
    return assert.equal(response.statusCode, canRead(on.model, name, row, caller) ? 403 : 404, response.body)
  }
  const doomed = doomedWith(on, name, row.id)
  const users = usersOf(on, doomed, caller)
  assert.equal(response.statusCode, users.length > 0 ? 409 : 204, response.body)
  if (users.length > 0) {
    const messages: string[] = response.json().errors.map(({ message }: { message: string }) => message)
    return assert.deepEqual(messages.sort(), users.map((user) => `is referred to by ${user}`).sort())
  }
  for (const [child, { links }] of Object.entries(on.model.shapes) as [Name, Shapes[Name]][]) {
    for (const id of doomed[child]) on.model.rows[child].delete(id)
    for (const one of on.model.rows[child].values()) {
      for (const [relation, { to }] of Object.entries(links)) {
        if (doomed[to].has(one[`${relation}Id`] as number)) delete one[`${relation}Id`]
      }
    }
  }
}

/** Returns the ids of a row and of the rows that its deletion also deletes. */
function doomedWith(on: Context, name: Name, id: number): Record<Name, Set<number>> {
  const doomed = Object.fromEntries(names.map((one) => [one, new Set<number>()])) as Record<Name, Set<number>>
  const visit = (at: Name, row: number) => {
    if (doomed[at].has(row)) return
    doomed[at].add(row)
    for (const [child, one] of referring(on, at, row, 'cascade')) visit(child, one.id)
  }
  visit(name, id)
  return doomed
}

function referring(on: Context, to: Name, id: number, onDelete: string): [Name, Row][] {
  return names.flatMap((child) =>
    Object.entries(on.model.shapes[child].links)
      .filter(([, link]) => link.to === to && link.onDelete === onDelete)
      .flatMap(([relation]) =>
        [...on.model.rows[child].values()]
          .filter((one) => one[`${relation}Id`] === id)
          .map((one) => [child, one] as [Name, Row]),
      ),
  )
}

/** Returns the collections whose rows prevent a deletion, worded as in the response. */
function usersOf(on: Context, doomed: Record<Name, Set<number>>, who: string): string[] {
  const users = new Map<Name, number>()
  for (const parent of names) {
    for (const id of doomed[parent]) {
      for (const [child, row] of referring(on, parent, id, 'restrict')) {
        if (doomed[child].has(row.id)) continue
        users.set(child, (users.get(child) ?? 0) + (canRead(on.model, child, row, who) ? 1 : 0))
      }
    }
  }
  return [...users].map(([child, readable]) => (readable > 0 ? `${readable} ${child}` : child))
}
/** Returns true if a row matches a query's filter, which ignores the case of text. */
function meetsFilter(filter: string, row: Row): boolean {
  const [, field = '', operator, wanted = ''] = /^(\w+)(?:\[(\w+)\])?=(.*)$/.exec(filter) ?? []
  const value = row[field] === undefined ? undefined : String(row[field]).toLowerCase()
  if (operator === 'not') return value !== wanted
  if (operator === 'null') return value === undefined
  if (operator === 'in') return value !== undefined && wanted.split(',').includes(value)
  if (operator === 'from') return value !== undefined && Number(value) >= Number(wanted)
  return value === wanted
}
