import assert from 'node:assert/strict'
import { accessDenied, assertLikeMissing, drawCaller, drawPlace, drawRow } from './check-reads.ts'
import {
  assertRefused,
  type Context,
  count,
  type Keyed,
  nowOf,
  type Place,
  type Response,
  send,
  settle,
} from './context.ts'
import type { Dice } from './dice.ts'
import type { Person } from './people.ts'
import { drawBody, inVersion } from './requests.ts'
import { type Members, shown } from './rows.ts'
import { askerOf, canRead, canWrite, type Row } from './rules.ts'
import {
  absent,
  type Change,
  changedValues,
  creationOf,
  immutableRefusal,
  type Refusal,
  refusedAt,
  refusedValues,
  remove,
  requiredFields,
  store,
  type Writing,
} from './writes.ts'

type Method = 'POST' | 'PUT' | 'PATCH' | 'DELETE'
const merge = { 'content-type': 'application/merge-patch+json' }
const failed: Refusal = { status: 412, code: 'PRECONDITION_FAILED' }
const incomplete: Refusal = { status: 400, code: 'MISSING_REQUIRED_FIELD' }
const provisionalId = 88_888_888

const writingOf = (on: Context, who: Person, { name, version }: Place): Writing => ({
  ...{ state: on.state, name, version, asker: askerOf(who), scopes: who.scopes, now: nowOf(on) },
})

/** Occasionally removes a required field from a body; returns whether it did. */
function maybeIncomplete(dice: Dice, body: Members, required: readonly string[]): boolean {
  if (required.length === 0 || !dice.chance(0.04)) return false
  delete body[dice.one(required)]
  return true
}

/** Asserts that a response shows this row as the model stored it. */
function assertShown(on: Context, place: Place, response: Response, row: Row): void {
  assert.deepEqual(
    response.json(),
    JSON.parse(JSON.stringify(shown(on.state, place.name, row, place.version, place.prefix))),
  )
}

/** Checks a POST, sometimes with an Idempotency-Key. Returns the changes that cause events. */
export async function checkCreate(
  dice: Dice,
  on: Context,
  place = drawPlace(dice, on),
  who = drawCaller(dice, on, place.name),
  again?: { body: Members; key: string },
): Promise<Change[]> {
  const { name, version, prefix } = place
  const body = again ? { ...again.body } : drawBody(dice, on.state, name, 'whole', who)
  const isIncomplete = maybeIncomplete(dice, body, requiredFields(on.state.world.shapes[name], version, false))
  const url = `${prefix}/${name}`
  const payload = inVersion(on.state, name, version, body)
  const key = again?.key ?? (dice.chance(0.35) ? dice.one(['k1', 'k2', 'k3', 'k4', 'k5', 'k6']) : undefined)
  forgetExpired(on)
  const known = on.keyed.find((one) => one.who === who && one.url === url && one.key === key)
  if (known && who.scopes.includes(`${name}:write`) && !isIncomplete) return replayed(on, known, payload)
  const headers = key === undefined ? {} : { 'idempotency-key': key }
  const response = await send(on, who, { method: 'POST', url, payload, headers })
  count(on, 'create', response.statusCode)
  const writing = writingOf(on, who, place)
  const refuse = () => {
    if (!who.scopes.includes(`${name}:write`)) return accessDenied
    if (isIncomplete) return incomplete
    const values = creationOf(writing, body)
    if ('status' in values && 'code' in values) return values as unknown as Refusal
    return refusedValues(writing, newRow(on, place, who, values, provisionalId), undefined)
  }
  const refused = refuse()
  const keep = (stored: Keyed['stored']) => {
    if (key !== undefined) on.keyed.push({ who, place, url, key, body, payload, at: on.app.clock.now, stored })
  }
  if (refused) {
    assertRefused(response, refused)
    if (refused.status === 409) keep(refused)
    return []
  }
  assert.equal(response.statusCode, 201, response.body)
  const { id } = response.json()
  assert.ok(!on.state.rows[name].has(id), `the id ${id} is new`)
  assert.equal(response.headers.location, `${url}/${id}`)
  const row = newRow(on, place, who, creationOf(writing, body) as Members, id)
  const changes = store(writing, row, undefined)
  await settle(on, changes)
  assertShown(on, place, response, row)
  keep({ id, body: response.json() })
  return changes
}

/** Removes the requests made more than a day ago, whose stored responses have expired. */
function forgetExpired(on: Context): void {
  on.keyed = on.keyed.filter(({ at }) => at > on.app.clock.now - 86_400_000)
}

function newRow(on: Context, { name }: Place, who: Person, values: Members, id: number): Row {
  const hasCreator = on.state.world.shapes[name].access !== 'none'
  const at = nowOf(on)
  const creator = hasCreator ? { createdBy: askerOf(who).id } : {}
  return { ...values, id, revision: 0, createdAt: at, updatedAt: at, ...creator }
}

/** Sends a request with a key that the caller has used before, with the same body or another body. */
async function replayed(
  on: Context,
  { who, place: { name }, url, key, payload, stored }: Keyed,
  other?: Members,
): Promise<Change[]> {
  const sent = other ?? payload
  const response = await send(on, who, { method: 'POST', url, payload: sent, headers: { 'idempotency-key': key } })
  const sorted = (members: Members) => JSON.stringify(Object.entries(members).sort())
  count(on, 'replay', response.statusCode)
  if (sorted(sent) !== sorted(payload)) {
    assertRefused(response, { status: 422, code: 'IDEMPOTENCY_KEY_REUSED' })
    return []
  }
  if ('code' in stored) {
    assertRefused(response, stored)
    return []
  }
  const row = on.state.rows[name].get(stored.id)
  // Without access rules, the stored response is replayed even if its row has been deleted.
  const hasRules = on.state.world.shapes[name].access !== 'none'
  if (hasRules && (row === undefined || !canRead(on.state, name, row, askerOf(who)))) {
    assertRefused(response, absent)
    return []
  }
  assert.deepEqual([response.statusCode, response.json()], [201, stored.body])
  assert.equal(response.headers['idempotent-replayed'], 'true')
  return []
}

/** Repeats an earlier request with its key, as the same or another caller. */
export async function checkReplay(dice: Dice, on: Context): Promise<Change[]> {
  forgetExpired(on)
  if (on.keyed.length === 0) return []
  const earlier = dice.one(on.keyed)
  if (dice.chance(0.75)) return replayed(on, earlier)
  // Each caller has its own idempotency keys, so another caller's request with the same key is a new request.
  const { place, body, key } = earlier
  return checkCreate(dice, on, place, dice.one(on.people), { body, key })
}

/** Picks If-Match, If-None-Match or neither; `isMet` is true if a row with this revision satisfies it. */
function drawCondition(dice: Dice, revision: number): { headers: Record<string, string>; isMet: boolean } {
  if (dice.chance(0.6)) return { headers: {}, isMet: true }
  const [current, other] = [`"${revision}"`, `"${revision + 7}"`]
  return dice.one<{ headers: Record<string, string>; isMet: boolean }>([
    { headers: { 'if-match': current }, isMet: true },
    { headers: { 'if-match': `${other}, ${current}` }, isMet: true },
    { headers: { 'if-match': other }, isMet: false },
    { headers: { 'if-match': `W/${current}` }, isMet: false },
    { headers: { 'if-match': '*' }, isMet: true },
    { headers: { 'if-none-match': '*' }, isMet: false },
    { headers: { 'if-none-match': current }, isMet: false },
    { headers: { 'if-none-match': other }, isMet: true },
  ])
}

/** Checks a PUT or PATCH of a row. */
export async function checkChange(dice: Dice, on: Context, method: 'PUT' | 'PATCH'): Promise<Change[]> {
  const place = drawPlace(dice, on)
  const who = drawCaller(dice, on, place.name)
  const { name, version } = place
  const row = drawRow(dice, on, name, who, canWrite)
  if (row === undefined) return []
  const shape = on.state.world.shapes[name]
  const body = drawBody(dice, on.state, name, method === 'PUT' ? 'whole' : 'patch', who)
  // Like many clients, sends some values unchanged.
  for (const field of Object.keys(body)) if (row[field] !== undefined && dice.chance(0.4)) body[field] = row[field]
  const isIncomplete = method === 'PUT' && maybeIncomplete(dice, body, requiredFields(shape, version, true))
  const { headers, isMet } = drawCondition(dice, row.revision)
  const payload = inVersion(on.state, name, version, body)
  const ask = (id: number) =>
    send(on, who, {
      ...{ method, url: `${place.prefix}/${name}/${id}`, payload },
      headers: { ...headers, ...(method === 'PATCH' && merge) },
    })
  const response = await ask(row.id)
  count(on, method.toLowerCase(), response.statusCode)
  const writing = writingOf(on, who, place)
  const values = changedValues(writing, row, body, method === 'PATCH')
  const { id, revision, createdAt, createdBy } = row
  const creator = createdBy === undefined ? {} : { createdBy }
  const changed: Row = { ...values, id, revision, createdAt, updatedAt: nowOf(on), ...creator }
  const refused = () => {
    if (!who.scopes.includes(`${name}:write`)) return accessDenied
    if (isIncomplete) return incomplete
    const refused = refusedAt(writing, row) ?? immutableRefusal(writing, row, values)
    return refused ?? (isMet ? refusedValues(writing, changed, row) : failed)
  }
  const refusal = refused()
  if (refusal) return refusedChange(response, refusal, ask)
  assert.equal(response.statusCode, 200, response.body)
  const changes = store(writing, changed, row)
  await settle(on, changes)
  assertShown(on, place, response, changed)
  return changes
}

async function refusedChange(response: Response, refusal: Refusal, ask: (id: number) => Promise<Response>) {
  assertRefused(response, refusal)
  if (refusal === absent) await assertLikeMissing(response, ask)
  return []
}

export async function checkRemove(dice: Dice, on: Context): Promise<Change[]> {
  const place = drawPlace(dice, on)
  const who = drawCaller(dice, on, place.name)
  const row = drawRow(dice, on, place.name, who, canWrite)
  if (row === undefined) return []
  const { headers, isMet } = drawCondition(dice, row.revision)
  const method: Method = 'DELETE'
  const ask = (id: number) => send(on, who, { method, url: `${place.prefix}/${place.name}/${id}`, headers })
  const response = await ask(row.id)
  count(on, 'delete', response.statusCode)
  const writing = writingOf(on, who, place)
  const isScoped = who.scopes.includes(`${place.name}:write`)
  const refused = isScoped ? (refusedAt(writing, row) ?? (isMet ? undefined : failed)) : accessDenied
  if (refused) return refusedChange(response, refused, ask)
  const changes = remove(writing, row)
  if (!Array.isArray(changes)) return refusedChange(response, changes, ask)
  assert.equal(response.statusCode, 204, response.body)
  await settle(on, changes)
  return changes
}
