import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import type { Definition } from '../../../../src/definition/service.ts'
import { createClient } from '../../../../src/oauth/clients/clients.ts'
import { addUser, openAccount } from '../../../../src/oauth/users/accounts.ts'
import type { Database } from '../../../../src/storage/database.ts'
import { sealer } from '../../../../src/storage/encryption.ts'
import { migrate } from '../../../../src/storage/migrate.ts'
import { type TestApp, testApp, token } from '../../../support/app.ts'
import type { EngineUnderTest } from '../../../support/engines.ts'
import type { Dice } from './dice.ts'
import { drawPeople, type Person } from './people.ts'
import type { Members, Version } from './rows.ts'
import type { Rows, State } from './rules.ts'
import { definitionOf } from './service.ts'
import { type Name, nounOf, type World } from './shapes.ts'
import type { Change, Refusal } from './writes.ts'

export type Request = Parameters<TestApp['send']>[0]
export type Response = Awaited<ReturnType<TestApp['send']>>

/** A webhook registered with the service under test. */
export interface Hook {
  id: string
  owner: Person
  event: string
  version: Version
  isEnvelope: boolean
}

/** The collection and the version to which a request is sent. */
export interface Place {
  name: Name
  version: Version
  prefix: string
}

/** A request with an Idempotency-Key, and its response. */
export interface Keyed {
  who: Person
  place: Place
  url: string
  key: string
  /** The body with the collection's own field names; `payload` is the body as it was sent. */
  body: Members
  payload: Members
  at: number
  stored: { id: number; body: unknown } | Refusal
}

/** A delivery that has been compared with the model. */
export interface Delivered {
  id: string
  hook: Hook
  change: Change
}

/** The service under test and the model. */
export interface Context {
  app: TestApp
  db: Database
  definition: Definition
  state: State
  people: Person[]
  hooks: Hook[]
  keyed: Keyed[]
  delivered: Delivered[]
  /** The ids of the events that have been fanned out. */
  seenEvents: Set<string>
  /** The caller who requested the last report. */
  reporter: Person | undefined
  /** How often each outcome occurred, such as `get 404`. */
  counts: Record<string, number>
  requests: number
  /** The total number of rows in the lists so far. */
  rowsListed: number
  /** The requests so far, to be printed with a difference. */
  log: string[]
}

export const tokenOf = ({ scopes, client, user }: Person) => token(scopes.join(' '), client, String(user ?? client))

export async function send(on: Context, who: Person, request: Request): Promise<Response> {
  on.requests++
  const { method = 'GET', url, payload, headers } = request
  const parts = [who.name, method, decodeURIComponent(String(url)), payload, headers]
  on.log.push(
    parts
      .filter((part) => part !== undefined)
      .map((part) => (typeof part === 'string' ? part : JSON.stringify(part)))
      .join(' '),
  )
  return on.app.send({ token: tokenOf(who), ...request })
}

export const nowOf = ({ app }: Context) => new Date(app.clock.now).toISOString()

/** Advances the clock, and sets the model's day. */
export function advance(on: Context, ms: number): void {
  on.app.clock.now += ms
  on.state.today = nowOf(on).slice(0, 10)
}

/** Compares the status, the error code and, if the model predicts them, the field errors. */
export function assertRefused(response: Response, { status, code, errors }: Refusal): void {
  const { errorCode, errors: sent } = response.body === '' ? {} : response.json()
  assert.deepEqual([response.statusCode, response.headers['x-error-code']], [status, code], response.body)
  if (response.body !== '') assert.equal(errorCode, code)
  if (errors && response.body !== '') assert.deepEqual(sorted(sent), sorted(errors))
}
const sorted = (errors: unknown[] = []) => errors.map((error) => JSON.stringify(error)).sort()

/** Returns what a caller can observe in a response, without values that differ between any two responses. */
export function observed({ statusCode, headers, body }: Response) {
  const varying = ['date', 'x-request-id', 'x-ratelimit-remaining', 'ratelimit']
  const kept = Object.entries(headers).filter(([name]) => !varying.includes(name))
  const masked = (text: unknown) => String(text).replace(/\d+/g, '#')
  const text = body.replace(/urn:request:[^"]*|"requestId":"[^"]*"|"timestamp":"[^"]*"/g, '')
  return {
    statusCode,
    headers: Object.fromEntries(kept.map(([name, value]) => [name, masked(value)])),
    body: masked(text),
  }
}

/**
 * Compares the ids of the changed collections' rows with the model. Exactly the changed rows must have a higher
 * revision, which the model adopts.
 */
export async function settle(on: Context, changed: readonly Change[]): Promise<void> {
  for (const name of new Set(changed.map((change) => change.name))) {
    const { rows } = await sql<{ id: number; revision: number }>`
      select id, revision from ${sql.table(`resource_${name}`)} order by id`.execute(on.db.read)
    const before = [...on.state.rows[name].values()].sort((a, b) => a.id - b.id)
    assert.deepEqual(
      rows.map(({ id }) => Number(id)),
      before.map(({ id }) => id),
      `the rows of ${name}`,
    )
    const revised = new Map(rows.map(({ id, revision }) => [Number(id), Number(revision)]))
    on.state.rows[name] = new Map(
      before.map((row) => {
        const isChanged = changed.some((one) => one.name === name && one.row.id === row.id)
        const revision = revised.get(row.id) as number
        assert.ok(isChanged ? revision > row.revision : revision === row.revision, `the revision of ${name} ${row.id}`)
        return [row.id, { ...row, revision }]
      }),
    )
  }
}

/**
 * Starts the service of a generated definition on a new database, with users and clients. `openRules` activates the
 * rules, and `register` adds webhooks.
 */
export async function start(engine: EngineUnderTest, world: World, dice: Dice) {
  const rules = { areOn: false }
  const definition = definitionOf(world, rules)
  const db = await engine.database()
  await migrate(db, { tables: definition.tables })
  const app = await testApp(db, { definition })
  const resources = world.names.flatMap((name) => [`${name}:read`, `${name}:write`])
  const people = drawPeople([...resources, 'webhooks:read', 'webhooks:write', 'reports:read', 'reports:write'])
  const rows = Object.fromEntries(world.names.map((name) => [name, new Map()])) as Rows
  const state: State = { world, rows, areRulesOn: false, today: '' }
  const lists = { hooks: [], keyed: [], delivered: [], seenEvents: new Set<string>(), log: [] }
  const on: Context = {
    app,
    db,
    definition,
    state,
    people,
    ...lists,
    reporter: undefined,
    counts: {},
    requests: 0,
    rowsListed: 0,
  }
  advance(on, 0)
  for (const person of people) await enroll(on, person)
  const openRules = () => {
    rules.areOn = true
    state.areRulesOn = true
    // The service caches facts about callers for five seconds.
    advance(on, 5_000)
  }
  const close = async () => {
    await app.app.close()
    await db.close()
  }
  return { on, openRules, close, register: () => registerHooks(on, dice) }
}

const seal = sealer(Buffer.alloc(32, 1), randomBytes)

async function enroll({ db, app, definition }: Context, person: Person): Promise<void> {
  const { client, name, tenant, scopes, isAdmin, role } = person
  if (person.user === undefined) {
    const labels: Record<string, string> = tenant === undefined ? {} : { tenant }
    await createClient(db, seal, definition.scopes, {
      ...{ id: client, name, scopes, grants: ['client_credentials'], labels },
    })
    return
  }
  person.user = await db.write(async (tx) => {
    const id = await addUser(tx, name, `${name}@example.com`, app.clock.now)
    await openAccount(tx, id, isAdmin ? 'admin' : 'user', app.clock.now)
    const values = { tenant: tenant ?? null, role: role ?? null }
    await tx
      .updateTable('users')
      .set(values as never)
      .where('id', '=', id)
      .execute()
    return id
  })
}

/** Moves a caller to another tenant, or to none, and advances the clock until the change has taken effect. */
export async function move(on: Context, person: Person, tenant: string | undefined): Promise<void> {
  const { client, user } = person
  await on.db.write(async (tx) => {
    const values = { tenant: tenant ?? null } as never
    const labels = JSON.stringify(tenant === undefined ? {} : { tenant })
    if (user === undefined) await tx.updateTable('clients').set({ labels }).where('id', '=', client).execute()
    else await tx.updateTable('users').set(values).where('id', '=', user).execute()
  })
  person.tenant = tenant
  on.log.push(`${person.name} moves to ${tenant}`)
  advance(on, 5_000)
}

async function registerHooks(on: Context, dice: Dice): Promise<void> {
  for (const [at, owner] of dice.some(on.people, 0.6).entries()) {
    const noun = nounOf(dice.one(on.state.world.names))
    const event = dice.one(['*', '*', `${noun}.*`, `${noun}.${dice.one(['created', 'updated', 'deleted'])}`])
    const [version, isEnvelope] = [dice.one(['v1', 'v2', undefined] as const), dice.chance(0.2)]
    const style = isEnvelope ? { payloadStyle: 'envelope' } : {}
    const payload = { event, callbackUrl: `http://127.0.0.1:9/${at}`, ...style, ...(version && { version }) }
    const response = await send(on, owner, { method: 'POST', url: '/api/webhooks', payload })
    const isCovered = event === '*' || owner.scopes.includes(`${noun}s:read`)
    assert.equal(response.statusCode, isCovered ? 201 : 403, response.body)
    if (isCovered) on.hooks.push({ id: response.json().id, owner, event, version: version ?? 'v2', isEnvelope })
  }
}

export const count = (on: Context, kind: string, status: number) => {
  on.counts[`${kind} ${status}`] = (on.counts[`${kind} ${status}`] ?? 0) + 1
}
