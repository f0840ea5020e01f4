import { randomBytes } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'
import { theService } from '../src/audit/chain.ts'
import { recordEvent } from '../src/queue/events.ts'
import { openQueue } from '../src/queue/open.ts'
import { sealer } from '../src/storage/encryption.ts'
import { newOrderedId } from '../src/storage/ids.ts'
import { openDatabase } from '../src/storage/open.ts'
import { newSecret, signature } from '../src/webhooks/dispatch/sign.ts'
import { insert, newRegistration } from '../src/webhooks/registrations.ts'

interface Filling {
  /** Of the receiver. */
  port: number
  endpoints: number
  /** How many events, each for one of the endpoints. */
  count: number
}

const batch = 1_000
const bodyOf = (n: number) => {
  const taskId = `tsk_${String(n).padStart(22, '0')}`
  return { taskId, status: 'completed', resultUrl: `/api/reports/${taskId}/download` }
}
const urlOf = (port: number, endpoint: number) => `http://127.0.0.1:${port}/hooks/${endpoint}`

/** Registers endpoints of as many owners and records events of theirs, as the service itself would. */
export async function fillWebhooks(
  file: string,
  masterKey: Buffer,
  { port, endpoints, count }: Filling,
): Promise<void> {
  const db = await openDatabase(`file:${file}`)
  const now = Date.now
  const queue = await openQueue({ db, now, random: Math.random, onError: (error) => console.error(error) })
  const store = { db, sealer: sealer(masterKey, randomBytes), now, random: randomBytes }
  for (let n = 0; n < endpoints; n++) {
    const caller = { clientId: `cli_${n}`, subject: `cli_${n}`, scopes: new Set<string>() }
    const { row } = newRegistration(store, caller, { event: 'report.completed', callbackUrl: urlOf(port, n) })
    await db.write((tx) => insert(tx, row, store, theService))
  }
  for (let from = 0; from < count; from += batch) {
    const events = Array.from({ length: Math.min(batch, count - from) }, (_, n) => from + n)
    await Promise.all(
      events.map((n) => {
        const owner = { ownerClient: `cli_${n % endpoints}`, ownerSubject: `cli_${n % endpoints}` }
        const createdAt = new Date().toISOString()
        const about = { id: newOrderedId('msg', randomBytes, createdAt), type: 'report.completed', callbackUrl: null }
        const event = { ...about, ...owner, body: bodyOf(n), createdAt }
        return db.write((tx) => recordEvent(tx, queue, event))
      }),
    )
  }
  await queue.stop(1_000)
  await db.close()
}

/** Calls as the service makes them, of the same size, signed once. */
export function sampleCalls(port: number, endpoints: number) {
  return Array.from({ length: endpoints }, (_, n) => {
    const body = JSON.stringify(bodyOf(n))
    const id = newOrderedId('msg', randomBytes, new Date().toISOString())
    const timestampSeconds = Math.floor(Date.now() / 1_000)
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'Plinth/0.0.0',
      'webhook-id': id,
      'webhook-timestamp': String(timestampSeconds),
      'webhook-signature': signature(
        { secrets: [newSecret(randomBytes)] },
        { id, timestampSeconds, body: Buffer.from(body) },
      ),
      'webhook-event': 'report.completed',
      'webhook-attempt': '1',
    }
    return { url: urlOf(port, n), headers, body }
  })
}

/** How many deliveries are recorded as made, and how fast the last nine tenths of them were, once all are. */
export function deliveredSince(file: string, count: number): { delivered: number; perSecond: number } {
  const db = new DatabaseSync(file, { readOnly: true })
  const { delivered } = db.prepare("select count(*) as delivered from deliveries where status = 'delivered'").get() as {
    delivered: number
  }
  if (delivered < count) {
    db.close()
    return { delivered, perSecond: 0 }
  }
  const warm = Math.floor(count / 10)
  const from = db.prepare('select completed_at as at from deliveries order by completed_at limit 1 offset ?').get(warm)
  const to = db.prepare('select max(completed_at) as at from deliveries').get()
  db.close()
  const ms = Date.parse(String(to?.at)) - Date.parse(String(from?.at))
  return { delivered, perSecond: ((count - warm) * 1_000) / ms }
}
