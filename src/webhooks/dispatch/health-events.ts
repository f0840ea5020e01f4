import { recordEvent } from '../../queue/events.ts'
import type { Queue } from '../../queue/queue.ts'
import type { Queryable } from '../../storage/database.ts'
import { newOrderedId, type RandomBytes } from '../../storage/ids.ts'
import type { Webhook } from '../../storage/tables/tables.ts'

/** The content of an event about a webhook. */
export interface HealthEvent {
  kind: 'webhook.failing' | 'webhook.disabled'
  /** When the webhook began to fail, the first delivery was dropped, or the webhook was disabled. ISO 8601. */
  since: string
  /** A short text for the owner; never contains a secret or the address, which may contain one. */
  reason: string
}

/** Dependencies for recording an event about a webhook. */
export interface EventRecording {
  queue: Queue
  random: RandomBytes
}

/**
 * Notifies the owner's other webhooks that a webhook is failing or was disabled, in the transaction that detected it.
 * The affected webhook receives no notification, so that its failures cannot cause further failures.
 */
export async function recordHealthEvent(
  tx: Queryable,
  { queue, random }: EventRecording,
  { id, event, ownerClient, ownerSubject }: Pick<Webhook, 'id' | 'event' | 'ownerClient' | 'ownerSubject'>,
  { kind, since, reason }: HealthEvent,
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
