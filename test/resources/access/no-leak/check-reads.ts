import assert from 'node:assert/strict'
import { assertRefused, type Context, count, observed, type Place, type Response, send } from './context.ts'
import type { Dice } from './dice.ts'
import { expanded, listed, selected } from './lists.ts'
import type { Person } from './people.ts'
import { type DrawnRead, drawList, drawRead, missingId, searched } from './requests.ts'
import { relationsOf, shown } from './rows.ts'
import { askerOf, canRead, type Row } from './rules.ts'
import type { Name } from './shapes.ts'
import { absent, type Refusal } from './writes.ts'

export function drawPlace(dice: Dice, on: Context): Place {
  const prefix = dice.one(['', '/v1', '/v2', '/v2'])
  return { name: dice.one(on.state.world.names), prefix, version: prefix === '/v2' ? 'v2' : 'v1' }
}

/** Picks a random caller, often one that can read some rows of a collection, but not all. */
export function drawCaller(dice: Dice, on: Context, name: Name): Person {
  const rows = [...on.state.rows[name].values()]
  const readable = (who: Person) => rows.filter((row) => canRead(on.state, name, row, askerOf(who))).length
  const some = dice.chance(0.6) ? on.people.filter((who) => readable(who) > 0 && readable(who) < rows.length) : []
  return dice.one(some.length > 0 ? some : on.people)
}

/** Picks a random row, often one that the caller can read or write; undefined if the collection is empty. */
export function drawRow(dice: Dice, on: Context, name: Name, who: Person, canAccess = canRead): Row | undefined {
  const rows = [...on.state.rows[name].values()]
  const accessible = dice.chance(0.6) ? rows.filter((row) => canAccess(on.state, name, row, askerOf(who))) : []
  if (accessible.length > 0) return dice.one(accessible)
  return rows.length === 0 ? undefined : dice.one(rows)
}

export const accessDenied: Refusal = { status: 403, code: 'ACCESS_DENIED' }
const malformed: Refusal = { status: 400, code: 'INVALID_INPUT' }

const queryOf = (parameters: readonly [string, string][]) => {
  const text = new URLSearchParams([...parameters.map(([name, value]): [string, string] => [name, value])]).toString()
  return text === '' ? '' : `?${text}`
}

/** Returns every reason to refuse this request regardless of the rows. The response may state any one of them. */
function refusalsOf(who: Person, name: Name, { reached, isUnknown }: DrawnRead): Refusal[] {
  if (!who.scopes.includes(`${name}:read`)) return [accessDenied]
  const isAllowed = [...reached].every((one) => who.scopes.includes(`${one}:read`))
  return [...(isUnknown ? [malformed] : []), ...(isAllowed ? [] : [accessDenied])]
}

const statedBy = ({ statusCode }: Response, refusals: readonly Refusal[]) =>
  refusals.find(({ status }) => status === statusCode) ?? refusals[0]

/** Returns a row in the form of a GET response. */
function shownTo(on: Context, who: Person, { name, version, prefix }: Place, row: Row, drawn: DrawnRead): unknown {
  const { state } = on
  const asker = askerOf(who)
  const members = {
    ...shown(state, name, row, version, prefix),
    ...expanded({ state, version, prefix, asker }, name, row, drawn.expand),
  }
  return selected(members, drawn.fields)
}

/** Compares the responses for a row that the caller cannot read and for a row that does not exist. */
export async function assertLikeMissing(response: Response, ask: (id: number) => Promise<Response>): Promise<void> {
  assert.deepEqual(observed(response), observed(await ask(missingId)))
}

/** Checks GET or HEAD of one row, sometimes repeated with the row's entity tag by the same or another caller. */
export async function checkRead(dice: Dice, on: Context): Promise<void> {
  const place = drawPlace(dice, on)
  const who = drawCaller(dice, on, place.name)
  const row = drawRow(dice, on, place.name, who)
  if (row === undefined) return
  const drawn = drawRead(dice, on.state, place.name, place.version)
  const method = dice.one(['GET', 'GET', 'GET', 'HEAD'] as const)
  const read = (by: Person, id = row.id, headers = {}) =>
    send(on, by, { method, url: `${place.prefix}/${place.name}/${id}${queryOf(drawn.parameters)}`, headers })
  const check = async (by: Person, response: Response, tag?: { etag: string; of: string }) => {
    const refused = statedBy(response, refusalsOf(by, place.name, drawn))
    const isReadable = canRead(on.state, place.name, row, askerOf(by))
    count(on, method.toLowerCase(), refused?.status ?? (isReadable ? 200 : 404))
    if (refused) return assertRefused(response, refused)
    if (!isReadable) {
      assertRefused(response, absent)
      return assertLikeMissing(response, (id) => read(by, id, tag ? { 'if-none-match': tag.etag } : {}))
    }
    const expected = JSON.stringify(shownTo(on, by, place, row, drawn))
    if (tag) assert.equal(response.statusCode, tag.of === expected ? 304 : 200, response.body)
    else assert.equal(response.statusCode, 200, response.body)
    if (method === 'GET' && response.statusCode === 200) assert.deepEqual(response.json(), JSON.parse(expected))
    else assert.equal(response.body, '')
    return expected
  }
  const response = await read(who)
  const of = await check(who, response)
  const { etag } = response.headers
  const isStrong = drawn.expand.length + drawn.fields.length === 0
  if (etag && isStrong) assert.match(String(etag), new RegExp(`^"${row.revision}(\\.|"$)`))
  if (!dice.chance(0.4)) return
  const other = dice.chance(0.5) ? who : dice.one(on.people)
  // For HEAD, the service builds no body with `fields` or `expand`, so it cannot compare that body's tag.
  const tag = etag && of !== undefined && (method === 'GET' || isStrong) ? { etag: String(etag), of } : undefined
  await check(other, await read(other, row.id, tag ? { 'if-none-match': tag.etag } : {}), tag)
}

interface Listing {
  place: Place
  drawn: DrawnRead
  path: string
  limit: number
  isCounted: boolean
}

/** Compares at most four pages of a list with the model, in both directions. */
async function checkPages(on: Context, who: Person, { place, drawn, path, limit, isCounted }: Listing): Promise<void> {
  const { state } = on
  const { name, version, prefix } = place
  const rows = listed(state, name, drawn.query, askerOf(who), searched(state, name, version))
  on.rowsListed += rows.length
  const items = rows.map((row) => shownTo(on, who, place, row, drawn))
  const headers: Record<string, string> = isCounted ? { prefer: 'count=exact' } : {}
  let url: string | null = `${path}${queryOf([...drawn.parameters, ['limit', String(limit)]])}`
  let before: { url: string; items: unknown[] } | undefined
  for (let from = 0; url !== null; from += limit) {
    const page = await pageAt(on, who, url, headers, prefix)
    const expected = items.slice(from, from + limit)
    assert.deepEqual(page.items, expected)
    if (isCounted) assert.equal(page.total, String(rows.length))
    assert.equal(page.next !== null, from + limit < rows.length, 'the next page')
    assert.equal(page.prev !== null, from > 0, 'the previous page')
    if (before && page.prev !== null) {
      assert.deepEqual((await pageAt(on, who, page.prev, headers, prefix)).items, before.items)
      before = undefined
      if (from > 2 * limit) break
    } else before = { url, items: expected }
    url = page.next
  }
}

async function pageAt(on: Context, who: Person, url: string, headers: Record<string, string>, prefix: string) {
  const response = await send(on, who, { url, headers })
  assert.equal(response.statusCode, 200, response.body)
  const total = response.headers['x-total-count']
  const target = (rel: string) => new RegExp(`<([^>]*)>; rel="${rel}"`).exec(String(response.headers.link))?.[1] ?? null
  const [next, prev] = [target('next'), target('prev')]
  if (prefix !== '/v2') return { items: response.json(), next, prev, total }
  const envelope = response.json()
  assert.deepEqual([envelope.next, envelope.prev], [next, prev])
  return { ...(envelope as { items: unknown[]; next: string | null; prev: string | null }), total }
}

/** Checks GET of a list, or of the list under a row, by one or two callers. */
export async function checkList(dice: Dice, on: Context, isNested: boolean): Promise<void> {
  const place = drawPlace(dice, on)
  const { version, prefix } = place
  const relations = relationsOf(on.state.world, place.name, version).filter(({ isMany }) => isMany)
  if (isNested && relations.length === 0) return
  const relation = isNested ? dice.one(relations) : undefined
  const name = relation?.to ?? place.name
  const who = drawCaller(dice, on, name)
  const parent = drawRow(dice, on, place.name, who)
  if (isNested && parent === undefined) return
  const drawn = drawList(dice, on.state, name, version)
  if (relation && parent) {
    drawn.query.under = { field: relation.field, id: parent.id }
    drawn.reached.add(place.name)
  }
  const pathOf = (id: number) => (relation ? `${prefix}/${place.name}/${id}/${name}` : `${prefix}/${name}`)
  const listing = {
    ...{ place: { ...place, name }, drawn, path: pathOf(parent?.id ?? 0) },
    ...{ limit: dice.one([1, 2, 3, 50, 50]), isCounted: dice.chance(0.3) },
  }
  const kind = isNested ? 'nested list' : 'list'
  for (const by of [who, ...(dice.chance(0.4) ? [drawCaller(dice, on, name)] : [])]) {
    const refusals = refusalsOf(by, name, drawn)
    const isParentReadable = !relation || (parent && canRead(on.state, place.name, parent, askerOf(by)))
    if (refusals.length === 0 && isParentReadable) {
      count(on, kind, 200)
      await checkPages(on, by, listing)
      continue
    }
    const ask = (id: number) => send(on, by, { url: `${pathOf(id)}${queryOf(drawn.parameters)}` })
    const response = await ask(parent?.id ?? 0)
    count(on, kind, response.statusCode)
    // The service may detect an invalid query or a missing scope before or after it looks for the row.
    assertRefused(response, statedBy(response, isParentReadable ? refusals : [...refusals, absent]) ?? absent)
    if (!isParentReadable) await assertLikeMissing(response, ask)
  }
}
