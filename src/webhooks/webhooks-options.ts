import type { AddressPolicy, LookupAll } from '../http/ssrf-guard.ts'
import type { Queue } from '../queue/queue.ts'
import type { EventKinds } from './event-types.ts'
import type { Store } from './registrations.ts'

/** What the routes of webhooks need. */
export interface WebhooksOptions extends Store {
  queue: Queue
  /** What can be listened for. */
  events: EventKinds
  /** Which addresses may be registered. */
  policy: AddressPolicy
  lookup?: LookupAll
  requireIfMatch?: boolean
}
