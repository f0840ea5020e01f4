import type { RandomBytes } from '../../db/ids.ts'
import type { Database } from '../../db/open.ts'
import type { Sealer } from '../../db/seal.ts'
import type { Job, Queue, Work } from '../../queue/queue.ts'
import { abandonDeliveries } from './deliveries.ts'
import { record } from './record.ts'
import { accountSecrets, headersPlace, secretPlace, validSecrets, type WebhookKeys } from './secrets.ts'
import type { Sender } from './send.ts'
import { signature } from './sign.ts'

export interface DeliverOptions {
  db: Database
  queue: Queue
  sender: Pick<Sender, 'post'>
  sealer: Sealer
  keys: WebhookKeys
  /** Seconds to wait before each try; its length is the number of tries. */
  schedule: readonly number[]
  /** The release, named in User-Agent. */
  version: string
  now: () => number
  random: RandomBytes
  /** In [0, 1). */
  jitter: () => number
}

/** A delivery with all that its call needs. */
export type Due = NonNullable<Awaited<ReturnType<typeof load>>>

/**
 * Work of `delivery.send`: one signed POST outside any transaction, then its outcome and the next try in one.
 * The number of the try comes from the delivery: a crash in between repeats that same try (at least once).
 */
export const deliver = (options: DeliverOptions): Work => {
  const { db, sender, now } = options
  return async (job) => {
    const { deliveryId, round = 0 } = job.payload as { deliveryId: string; round?: number }
    const due = await load(db, deliveryId)
    // A redelivery has taken the place of this job.
    if (due !== undefined && due.round !== round) return db.write((tx) => job.finish(tx))
    if (due === undefined || due.status !== 'pending' || isStopped(due)) return drop(options, job, deliveryId)
    const call = await signedCall(options, due)
    // A stopping service lets a call end, but starts none.
    job.signal.throwIfAborted()
    const startedAt = new Date(now()).toISOString()
    const outcome = await sender.post(call)
    await db.write((tx) => record(tx, options, { job, due, startedAt, outcome }))
  }
}

function load(db: Database, deliveryId: string) {
  return db.read
    .selectFrom('deliveries')
    .innerJoin('events', 'events.id', 'deliveries.eventId')
    .leftJoin('webhooks', 'webhooks.id', 'deliveries.webhookId')
    .select(['deliveries.id', 'deliveries.eventId', 'deliveries.webhookId', 'deliveries.url', 'deliveries.body'])
    .select(['deliveries.round', 'deliveries.triesBefore', 'deliveries.isTest'])
    .select(['deliveries.status', 'deliveries.attempts', 'events.type', 'events.ownerClient', 'events.ownerSubject'])
    .select(['webhooks.status as webhookStatus', 'webhooks.secretSealed', 'webhooks.headers'])
    .select(['webhooks.previousSecretSealed', 'webhooks.previousSecretExpiresAt'])
    .where('deliveries.id', '=', deliveryId)
    .executeTakeFirst()
}

/** True when its registration was deleted, paused or disabled in the meantime; a test needs it only to be there. */
const isStopped = ({ webhookId, webhookStatus, isTest }: Due): boolean =>
  webhookId !== null && (isTest === 1 ? webhookStatus === null : webhookStatus !== 'active')

const drop = ({ db, now }: DeliverOptions, job: Job, deliveryId: string): Promise<void> =>
  db.write(async (tx) => {
    await job.finish(tx)
    await abandonDeliveries(tx, { deliveryId }, new Date(now()).toISOString())
  })

async function signedCall(options: DeliverOptions, due: Due) {
  const body = Buffer.from(due.body)
  const timestampSeconds = Math.floor(options.now() / 1_000)
  const headers = {
    ...staticHeaders(options.sealer, due),
    'content-type': 'application/json',
    'user-agent': `Plinth/${options.version}`,
    'webhook-id': due.eventId,
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signature(await signingKeys(options, due), { id: due.eventId, timestampSeconds, body }),
    'webhook-event': due.type,
    'webhook-attempt': String(due.attempts + 1),
  }
  return { url: due.url, headers, body }
}

/** A registered endpoint knows its own secret; an address given with a request, the account's or the public key. */
async function signingKeys({ db, sealer, keys, now, random }: DeliverOptions, due: Due) {
  if (due.webhookId !== null && due.secretSealed !== null) {
    const { secretSealed } = due
    return { secrets: validSecrets(sealer, { ...due, secretSealed }, secretPlace(due.webhookId), now()) }
  }
  return { secrets: await accountSecrets(db, sealer, due, now, random), privateKeys: [keys.privateKey] }
}

function staticHeaders(sealer: Sealer, { webhookId, headers }: Due): Record<string, string> {
  if (webhookId === null || headers === null) return {}
  const entries = Object.entries<string>(JSON.parse(sealer.open(headers, headersPlace(webhookId))))
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]))
}
