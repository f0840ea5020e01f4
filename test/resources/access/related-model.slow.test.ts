import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { Definition } from '../../../src/definition/service.ts'
import { canReadFacts } from '../../../src/resources/access/enforce.ts'
import { rowFacts } from '../../../src/resources/access/row-facts.ts'
import { accessFor } from '../../../src/resources/access/rules.ts'
import type { Declaration } from '../../../src/resources/declaration.ts'
import type { Database } from '../../../src/storage/database.ts'
import { migrate } from '../../../src/storage/migrate.ts'
import { type TestApp, testApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import {
  definitionOf,
  Model,
  type Name,
  names,
  type Row,
  rulesFor,
  type Shapes,
  shapes,
  tenants,
} from './related-model.ts'

/** SEED repeats a run; RUNS is the number of cases per definition. */
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))
const definitions = Number(process.env.DEFINITIONS ?? 4)
const runs = Number(process.env.RUNS ?? 8)

const callers = ['crm_north', 'crm_south', 'app_north', 'lone']
const caller = fc.constantFrom(...callers)
const name = fc.constantFrom(...names)
const at = fc.nat(30)
const body = fc.record(
  { tenant: fc.constantFrom(...tenants), level: fc.integer({ min: 0, max: 2 }) },
  { requiredKeys: [] },
)
/** Which row each reference names; 99 is none that exists. */
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
      it(`give every caller what a naive model in memory gives it: definition ${number + 1}`, async () => {
        const rules = {} as Model['rules']
        const definition = definitionOf(drawn, rules)
        const db = await engine.database()
        await migrate(db, { tables: definition.tables })
        const app = await testApp(db, { definition })
        const cases = fc.asyncProperty(
          rulesFor(drawn),
          fc.array(operation, { minLength: 10, maxLength: 40 }),
          async (generated, operations) => {
            const check = new Check({ app, db, definition, model: new Model(drawn, rules) })
            await check.seed()
            Object.assign(rules, generated)
            for (const step of operations) await check.step(step)
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

interface CheckOptions {
  app: TestApp
  db: Database
  definition: Definition
  model: Model
}

/** Sends requests and compares each response with the model, which it updates. */
class Check {
  private readonly app: TestApp
  private readonly db: Database
  private readonly model: Model
  private readonly shapes: Shapes
  private readonly scopes: string
  private readonly declarations: Declaration[]

  constructor({ app, db, definition, model }: CheckOptions) {
    this.app = app
    this.db = db
    this.model = model
    this.shapes = model.shapes
    this.scopes = Object.keys(definition.scopes).join(' ')
    this.declarations = definition.collections.map(({ declaration }) => declaration)
  }

  /** Empties the tables and stores some rows, while all rules allow everything. */
  async seed(): Promise<void> {
    await this.db.write(async (tx) => {
      for (const name of names.toReversed()) await tx.deleteFrom(`resource_${name}` as 'products').execute()
    })
    for (const name of names) this.model.rules[name] = { read: true, write: true }
    for (const [position, who] of callers.entries()) {
      for (const name of names) {
        const tenant = tenants[position % tenants.length] ?? 'north'
        const links = { region: position, customer: position, invoice: position, payer: position + 1 }
        await this.created({
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

  async step(step: Operation): Promise<void> {
    const checks = {
      create: (one: Step<'create'>) => this.created(one),
      read: (one: Step<'read'>) => this.read(one),
      list: (one: Step<'list'>) => this.listed(one),
      nested: (one: Step<'nested'>) => this.nested(one),
      replace: (one: Step<'replace'>) => this.changed(one),
      patch: (one: Step<'patch'>) => this.changed(one),
      remove: (one: Step<'remove'>) => this.removed(one),
    }
    await checks[step.kind](step as never)
  }

  private send(who: string, request: Parameters<TestApp['send']>[0]) {
    return this.app.send({ token: token(this.scopes, who), ...request })
  }

  private rowAt(name: Name, at: number): Row | undefined {
    const rows = [...this.model.rows[name].values()]
    return rows[at % rows.length]
  }

  /** The ids that a request sends for the references of a collection; required ones always have one. */
  private references(name: Name, links: Partial<Record<string, number>>, isMissing = false): Record<string, number> {
    const entries = Object.entries(this.shapes[name].links).flatMap(([relation, { to, isRequired }]) => {
      const wanted = links[relation] ?? (isRequired ? 0 : undefined)
      if (wanted === undefined) return []
      const row = this.rowAt(to, wanted)
      return [[`${relation}Id`, isMissing || row === undefined ? 999_999 : row.id]]
    })
    return Object.fromEntries(entries)
  }

  /** True if the caller may refer to all of these. */
  private canRefer(name: Name, sent: Row | Record<string, unknown>, before: Record<string, unknown>, who: string) {
    return Object.entries(this.shapes[name].links).every(([relation, { to }]) => {
      const field = `${relation}Id`
      const id = sent[field]
      if (id === undefined || id === before[field]) return true
      const row = this.model.rows[to].get(id as number)
      return row !== undefined && this.model.canRead(to, row, who)
    })
  }

  private async created({ name, caller, body, links, isMissing }: Step<'create'>): Promise<void> {
    const payload = { ...body, ...this.references(name, links, isMissing === 0) }
    const response = await this.send(caller, { method: 'POST', url: `/${name}`, payload })
    const creator = this.shapes[name].access === 'none' ? {} : { createdBy: `client:${caller}` }
    const row: Row = { id: 0, ...payload, ...creator }
    const expected = this.canRefer(name, payload, {}, caller)
      ? this.model.canWrite(name, row, caller)
        ? 201
        : 403
      : 422
    assert.equal(response.statusCode, expected, response.body)
    if (expected === 422) this.assertMissing(response.json(), payload)
    if (expected === 201) this.model.rows[name].set(response.json().id, { ...row, id: response.json().id })
  }

  /** The message for an unreadable row is that for a missing one. */
  private assertMissing({ errors }: { errors: { field: string; message: string }[] }, payload: object): void {
    assert.ok(errors.length > 0)
    for (const { field, message } of errors) {
      const id = (payload as Record<string, number>)[field]
      assert.match(message, new RegExp(`^refers to no \\w+: there is no ${id}$`))
    }
  }

  private async read({ name, caller, at }: Step<'read'>): Promise<void> {
    const row = this.rowAt(name, at)
    if (row === undefined) return
    const expand = this.expandable(name)
    const query = expand.length > 0 ? `?expand=${expand.join()}` : ''
    for (const url of [`/${name}/${row.id}`, `/${name}/${row.id}${query}`]) {
      const response = await this.send(caller, { url })
      assert.equal(response.statusCode, this.model.canRead(name, row, caller) ? 200 : 404, response.body)
      if (response.statusCode === 200 && url.includes('?')) this.assertExpanded(name, row, caller, response.json())
    }
    await this.assertFacts(name, row, caller)
  }

  /** The relations to one, their relations to one, and the collections that refer by a single field. */
  private expandable(name: Name): string[] {
    const toOne = Object.entries(this.shapes[name].links)
    const further = toOne.flatMap(([relation, { to }]) =>
      Object.keys(this.shapes[to].links).map((next) => `${relation}.${next}`),
    )
    return [...toOne.map(([relation]) => relation), ...further, ...this.children(name).map(([child]) => child)]
  }

  /** The collections that refer to one by a single field. */
  private children(name: Name): [Name, string][] {
    return names.flatMap((child) => {
      const fields = Object.entries(this.shapes[child].links).filter(([, { to }]) => to === name)
      const [[relation] = ['']] = fields
      return fields.length === 1 ? [[child, relation] as [Name, string]] : []
    })
  }

  private assertExpanded(name: Name, row: Row, who: string, shown: Record<string, unknown>, depth = 1): void {
    for (const [relation, { to }] of Object.entries(this.shapes[name].links)) {
      const other = this.model.related(name, relation, row)
      const isShown = other !== undefined && this.model.canRead(to, other, who)
      const member = shown[relation] as Record<string, unknown> | null
      assert.equal(member?.id ?? null, isShown ? other.id : null, `${name} ${relation}`)
      if (isShown && depth === 1) this.assertExpanded(to, other, who, member as Record<string, unknown>, 2)
    }
    if (depth > 1) return
    for (const [child, relation] of this.children(name)) {
      const ids = (shown[child] as Row[]).map(({ id }) => id)
      assert.deepEqual(ids, this.childrenOf(row, child, relation, who), child)
    }
  }

  private childrenOf(row: Row, child: Name, relation: string, who: string): number[] {
    const children = [...this.model.rows[child].values()].filter((one) => one[`${relation}Id`] === row.id)
    return children.filter((one) => this.model.canRead(child, one, who)).map(({ id }) => id)
  }

  /** The facts of a row, judged in memory, give the same as SQL. */
  private async assertFacts(name: Name, row: Row, who: string): Promise<void> {
    const declaration = this.declarations.find((one) => one.name === name) as Declaration
    if (declaration.access === undefined) return
    const facts = await rowFacts(declaration, this.declarations)(this.db.read, row)
    const sender = { clientId: who, subject: who, scopes: new Set<string>() }
    const access = accessFor(declaration.access, sender, { client: { id: who, labels: {} } }, () => '2026-03-01')
    assert.equal(canReadFacts(declaration, access, facts), this.model.canRead(name, row, who), JSON.stringify(facts))
  }

  private async listed({ name, caller, filter, along }: Step<'list'>): Promise<void> {
    const relation = Object.keys(this.shapes[name].links)[along - 1]
    const query = along === 0 ? '' : relation === undefined ? filter : `${relation}.${filter}`
    const headers = { prefer: 'count=exact' }
    const matching = (row: Row) => {
      if (along === 0 || relation === undefined) return along === 0 || meetsFilter(filter, row)
      const { to } = this.shapes[name].links[relation] as { to: Name }
      const other = this.model.related(name, relation, row)
      return other !== undefined && this.model.canRead(to, other, caller) && meetsFilter(filter, other)
    }
    const expected = [...this.model.rows[name].values()]
      .filter((row) => this.model.canRead(name, row, caller) && matching(row))
      .map(({ id }) => id)
    for (const sort of ['', '&sort=-id']) {
      // Twice, so that the second page may come from the cache.
      for (let round = 0; round < 2; round++) {
        const listed = await this.send(caller, { url: `/${name}?limit=200&${query}${sort}`, headers })
        assert.equal(listed.statusCode, 200, listed.body)
        const ids = listed.json().map(({ id }: Row) => id)
        assert.deepEqual(sort ? ids.reverse() : ids, expected, query)
        assert.equal(listed.headers['x-total-count'], String(expected.length))
      }
    }
  }

  private async nested({ name, caller, at }: Step<'nested'>): Promise<void> {
    const row = this.rowAt(name, at)
    if (row === undefined) return
    for (const [child, relation] of this.children(name)) {
      const listed = await this.send(caller, { url: `/${name}/${row.id}/${child}?limit=200` })
      const canRead = this.model.canRead(name, row, caller)
      assert.equal(listed.statusCode, canRead ? 200 : 404, listed.body)
      if (!canRead) continue
      const ids = listed.json().map(({ id }: Row) => id)
      assert.deepEqual(ids, this.childrenOf(row, child, relation, caller))
    }
  }

  private async changed({ kind, name, caller, at, body, links }: Step<'replace' | 'patch'>): Promise<void> {
    const row = this.rowAt(name, at)
    if (row === undefined) return
    const sent = this.references(name, links)
    const payload: Record<string, unknown> = { ...body, ...sent }
    const { id, createdBy } = row
    const kept = kind === 'patch' ? row : { id, ...(createdBy !== undefined && { createdBy }) }
    const changed: Row = { ...kept, ...payload }
    const response = await this.send(caller, {
      method: kind === 'patch' ? 'PATCH' : 'PUT',
      url: `/${name}/${id}`,
      payload,
      ...(kind === 'patch' && { headers: { 'content-type': 'application/merge-patch+json' } }),
    })
    const expected = () => {
      if (!this.model.canRead(name, row, caller)) return 404
      if (!this.model.canWrite(name, row, caller)) return 403
      if (!this.canRefer(name, changed, row, caller)) return 422
      return this.isWritableAs(name, changed, caller) ? 200 : 403
    }
    const status = expected()
    assert.equal(response.statusCode, status, response.body)
    if (status === 422) this.assertMissing(response.json(), payload)
    if (status === 200) this.model.rows[name].set(id, changed)
  }

  /** Judges a row as a change leaves it, which other rows of its collection may refer to. */
  private isWritableAs(name: Name, changed: Row, who: string): boolean {
    const rows = this.model.rows[name]
    const before = rows.get(changed.id) as Row
    rows.set(changed.id, changed)
    const canWrite = this.model.canWrite(name, changed, who)
    rows.set(changed.id, before)
    return canWrite
  }

  private async removed({ name, caller, at }: Step<'remove'>): Promise<void> {
    const row = this.rowAt(name, at)
    if (row === undefined) return
    const response = await this.send(caller, { method: 'DELETE', url: `/${name}/${row.id}` })
    if (!this.model.canWrite(name, row, caller)) {
      return assert.equal(response.statusCode, this.model.canRead(name, row, caller) ? 403 : 404, response.body)
    }
    const doomed = this.doomedWith(name, row.id)
    const users = this.usersOf(doomed, caller)
    assert.equal(response.statusCode, users.length > 0 ? 409 : 204, response.body)
    if (users.length > 0) {
      const messages: string[] = response.json().errors.map(({ message }: { message: string }) => message)
      return assert.deepEqual(messages.sort(), users.map((user) => `is referred to by ${user}`).sort())
    }
    for (const [child, { links }] of Object.entries(this.shapes) as [Name, Shapes[Name]][]) {
      for (const id of doomed[child]) this.model.rows[child].delete(id)
      for (const one of this.model.rows[child].values()) {
        for (const [relation, { to }] of Object.entries(links)) {
          if (doomed[to].has(one[`${relation}Id`] as number)) delete one[`${relation}Id`]
        }
      }
    }
  }

  /** The rows that a deletion takes along. */
  private doomedWith(name: Name, id: number): Record<Name, Set<number>> {
    const doomed = Object.fromEntries(names.map((one) => [one, new Set<number>()])) as Record<Name, Set<number>>
    const visit = (at: Name, row: number) => {
      if (doomed[at].has(row)) return
      doomed[at].add(row)
      for (const [child, one] of this.referring(at, row, 'cascade')) visit(child, one.id)
    }
    visit(name, id)
    return doomed
  }

  private referring(to: Name, id: number, onDelete: string): [Name, Row][] {
    return names.flatMap((child) =>
      Object.entries(this.shapes[child].links)
        .filter(([, link]) => link.to === to && link.onDelete === onDelete)
        .flatMap(([relation]) =>
          [...this.model.rows[child].values()]
            .filter((one) => one[`${relation}Id`] === id)
            .map((one) => [child, one] as [Name, Row]),
        ),
    )
  }

  /** What forbids a deletion, as the response names it. */
  private usersOf(doomed: Record<Name, Set<number>>, who: string): string[] {
    const users = new Map<Name, number>()
    for (const parent of names) {
      for (const id of doomed[parent]) {
        for (const [child, row] of this.referring(parent, id, 'restrict')) {
          if (doomed[child].has(row.id)) continue
          users.set(child, (users.get(child) ?? 0) + (this.model.canRead(child, row, who) ? 1 : 0))
        }
      }
    }
    return [...users].map(([child, readable]) => (readable > 0 ? `${readable} ${child}` : child))
  }
}

/** A filter of a query, which compares text without regard to case. */
function meetsFilter(filter: string, row: Row): boolean {
  const [, field = '', operator, wanted = ''] = /^(\w+)(?:\[(\w+)\])?=(.*)$/.exec(filter) ?? []
  const value = row[field] === undefined ? undefined : String(row[field]).toLowerCase()
  if (operator === 'not') return value !== wanted
  if (operator === 'null') return value === undefined
  if (operator === 'in') return value !== undefined && wanted.split(',').includes(value)
  if (operator === 'from') return value !== undefined && Number(value) >= Number(wanted)
  return value === wanted
}
