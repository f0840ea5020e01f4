import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { eventShapes } from '../../../../src/event-shapes.ts'
import { rowAccess } from '../../../../src/row-access.ts'
import { versionLifecycles } from '../../../../src/version-lifecycle.ts'
import { fanOut } from '../../../../src/webhooks/dispatch/fan-out.ts'
import { isEventReadable } from '../../../../src/webhooks/dispatch/readers.ts'
import { assertRefused, type Context, count, type Hook, nowOf, send } from './context.ts'
import type { Dice } from './dice.ts'
import { type Members, shown } from './rows.ts'
import { askerOf, canRead } from './rules.ts'
import { nounOf } from './shapes.ts'
import { type Change, denied } from './writes.ts'

const unexpected = (error: unknown) => assert.fail(String(error))
const access = ({ definition, db, app }: Context) => rowAccess(definition, { db, now: () => app.clock.now }).eventAccess

/** Returns true if a webhook's owner may receive a change, given the rows at that time and the owner's rights now. */
function mayHear(on: Context, { owner }: Hook, { name, row, seen }: Change): boolean {
  return owner.scopes.includes(`${name}:read`) && canRead({ ...seen, today: on.state.today }, name, row, askerOf(owner))
}

const typeOf = ({ name, type }: Change) => `${nounOf(name)}.${type}`
const isFor = (change: Change, { event }: Hook) =>
  event === '*' || event === typeOf(change) || event === `${nounOf(change.name)}.*`

/** Returns the data of an event, with the field names of a version. */
function bodyOf({ type, name, row, seen }: Change, { version }: Hook): Members {
  return type === 'deleted' ? { id: row.id } : JSON.parse(JSON.stringify(shown(seen, name, row, version, '')))
}

/** Fans out the new events as the worker does, compares each delivery with the model, and marks all as delivered. */
export async function checkDeliveries(on: Context, changes: readonly Change[]): Promise<void> {
  const { db, definition, app } = on
  const since = on.hooks.length === 0 ? [] : await newEvents(on)
  if (since.length === 0) {
    assert.deepEqual(
      changes.filter((change) => on.hooks.some((hook) => isFor(change, hook) && mayHear(on, hook, change))),
      [],
    )
    return
  }
  const shapes = eventShapes(definition, versionLifecycles(definition, {}))
  const queue = { enqueue: async () => unexpected('a retry') }
  const work = fanOut({
    ...{ db, now: () => app.clock.now, random: randomBytes, shapes, access: access(on), queue },
    onError: unexpected,
  })
  const payloads = since.map((eventId) => ({ eventId }))
  await work({ payloads, signal: new AbortController().signal, finish: async () => {} })
  const rows = await db.read
    .selectFrom('deliveries')
    .select(['id', 'webhookId', 'eventType', 'body'])
    .where('eventId', 'in', since)
    .orderBy('eventId')
    .execute()
  const found = new Map<string, { id: string; body: Members }>()
  for (const { id, webhookId, eventType, body } of rows) {
    const hook = on.hooks.find((one) => one.id === webhookId) as Hook
    const parsed = JSON.parse(body)
    if (eventType.startsWith('report.')) {
      assert.equal(hook.owner, on.reporter, 'only the requester hears of a report')
      continue
    }
    const data = hook.isEnvelope ? parsed.data : parsed
    if (hook.isEnvelope) assert.deepEqual([parsed.type, parsed.timestamp], [eventType, nowOf(on)])
    const key = `${hook.owner.name} ${hook.id} ${eventType} ${data.id}`
    assert.ok(!found.has(key), `one event for ${key}`)
    found.set(key, { id, body: data })
  }
  const expected = new Map<string, Members>()
  for (const hook of on.hooks) {
    for (const change of changes) {
      if (!isFor(change, hook) || !mayHear(on, hook, change)) continue
      const key = `${hook.owner.name} ${hook.id} ${typeOf(change)} ${change.row.id}`
      expected.set(key, bodyOf(change, hook))
      const delivery = found.get(key)
      if (delivery) on.delivered.push({ id: delivery.id, hook, change })
      count(on, `event ${change.type}`, 200)
    }
  }
  const bodies = new Map([...found].map(([key, { body }]) => [key, body]))
  assert.deepEqual(Object.fromEntries([...bodies].sort()), Object.fromEntries([...expected].sort()))
  await end(on)
}

/** Returns the ids of the events that have not been fanned out, and marks them as seen. */
async function newEvents({ db, seenEvents }: Context): Promise<string[]> {
  const all = await db.read.selectFrom('events').select('id').orderBy('id').execute()
  const fresh = all.map(({ id }) => id).filter((id) => !seenEvents.has(id))
  for (const id of fresh) seenEvents.add(id)
  return fresh
}

/** Marks all deliveries as delivered, so that the worker does not send them. */
const end = ({ db }: Context) =>
  db.write((tx) => tx.updateTable('deliveries').set({ status: 'delivered', nextAttemptAt: null }).execute())

/**
 * Checks whether an earlier delivery would still be sent, and redelivers it or replays its event type. Rows and callers
 * may have changed in the meantime.
 */
export async function checkResend(dice: Dice, on: Context): Promise<void> {
  if (on.delivered.length === 0) return
  const lost = dice.chance(0.5) ? on.delivered.filter((one) => !mayHear(on, one.hook, one.change)) : []
  const { id, hook, change } = dice.one(lost.length > 0 ? lost : on.delivered)
  const { owner } = hook
  const isHeard = mayHear(on, hook, change)
  const webhook = {
    ownerClient: owner.client,
    ownerSubject: String(owner.user ?? owner.client),
    scopes: owner.scopes.join(' '),
  }
  const { eventId } = await on.db.read
    .selectFrom('deliveries')
    .select('eventId')
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  const due = { webhook, isTest: 0, type: typeOf(change), eventId } as never
  assert.equal(
    await isEventReadable({ db: on.db, access: access(on) }, due),
    isHeard,
    'whether a waiting delivery is sent',
  )
  const url = `/api/webhooks/${hook.id}`
  if (dice.chance(0.5)) {
    const response = await send(on, owner, { method: 'POST', url: `${url}/deliveries/${id}/redeliver` })
    count(on, 'redeliver', response.statusCode)
    if (isHeard) assert.equal(response.statusCode, 202, response.body)
    else assertRefused(response, denied)
  } else {
    const type = typeOf(change)
    const payload = { since: '2026-01-01T00:00:00Z', event: type }
    const response = await send(on, owner, { method: 'POST', url: `${url}/replay`, payload })
    const all = on.delivered.filter(
      (one) => one.hook === hook && typeOf(one.change) === type && mayHear(on, hook, one.change),
    )
    assert.deepEqual([response.statusCode, response.json().count], [202, all.length])
    count(on, 'replay of events', response.statusCode)
  }
  await end(on)
}
