import { recordEvent } from '../../queue/events.ts'
import type { Queue } from '../../queue/queue.ts'
import type { Queryable } from '../../storage/database.ts'
import { newOrderedId, type RandomBytes } from '../../storage/ids.ts'
import type { Webhook } from '../../storage/tables/tables.ts'

/** What the owner of a webhook is told of it. */
export interface WebhookNews {
  kind: 'webhook.failing' | 'webhook.disabled'
  /** The first failure of a failing webhook, or the first delivery that was dropped; when a disabled one was disabled. ISO text. */
  since: string
  /** In a few words fit for the owner; never a secret, and not the address, which may hold one. */
  reason: string
}

/** What an event about a webhook is recorded with. */
export interface Announcing {
  queue: Queue
  random: RandomBytes
}

/**
 * Tells the other webhooks of the owner that one fails or was disabled, in the transaction that found it out. The webhook
 * itself is not told, so that no failure causes another one.
 */
export async function announceWebhook(
  tx: Queryable,
  { queue, random }: Announcing,
  { id, event, ownerClient, ownerSubject }: Pick<Webhook, 'id' | 'event' | 'ownerClient' | 'ownerSubject'>,
  { kind, since, reason }: WebhookNews,
  createdAt: string,
): Promise<void> {
  await recordEvent(tx, queue, {
    ...{
      id: newOrderedId('msg', random, createdAt),
      type: kind,
      ownerClient,
      ownerSubject,
      audience: null,
      exceptWebhook: id,
    },
    ...{ body: { webhookId: id, event, since, reason }, callbackUrl: null, createdAt },
  })
}
