import type { AddressPolicy, LookupAll } from '../http/ssrf-guard.ts'
import type { EventAccess } from '../queue/events.ts'
import type { Queue } from '../queue/queue.ts'
import type { EventKinds } from './event-types.ts'
import type { Store } from './registrations.ts'

/** Options for the webhook routes. */
export interface WebhooksOptions extends Store {
  queue: Queue
  /** The event types that webhooks can subscribe to. */
  events: EventKinds
  /** The access rules that decide who may receive the events of resources. */
  access: EventAccess
  /** The served API versions, oldest first. */
  versions: readonly string[]
  /** Which addresses may be registered. */
  policy: AddressPolicy
  lookup?: LookupAll
  requireIfMatch?: boolean
}
