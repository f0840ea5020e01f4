import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { Definition } from '../../../src/definition/service.ts'
import { rowAccess } from '../../../src/row-access.ts'
import type { Database } from '../../../src/storage/database.ts'
import { fanOut } from '../../../src/webhooks/dispatch/fan-out.ts'

/** Fans out every event, as the worker does, and returns the deliveries. */
export async function fanOutAll({ db, clock }: { db: Database; clock: { now: number } }, definition: Definition) {
  const now = () => clock.now
  const unexpected = () => assert.fail()
  const { eventAccess: access } = rowAccess(definition, { db, now })
  const work = fanOut({ db, now, random: randomBytes, access, queue: { enqueue: unexpected }, onError: unexpected })
  const events = await db.read.selectFrom('events').select('id').execute()
  const payloads = events.map(({ id }) => ({ eventId: id }))
  await work({ payloads, signal: new AbortController().signal, finish: async () => {} })
  return db.read.selectFrom('deliveries').select(['id', 'webhookId', 'eventType', 'body']).execute()
}
