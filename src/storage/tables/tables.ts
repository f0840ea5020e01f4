import type { ColumnType, Generated, Selectable } from 'kysely'
import type { ResourceTablesTable } from '../resource-tables/resource-columns.ts'
import type { Owned, Revisioned } from '../rows/revision.ts'
import type * as administration from './administration.ts'
import type { AuthTables, ClientsTable } from './auth.ts'
import type { LimitWindowsTable, QuotaUsesTable } from './limits.ts'
import type { AnswersTable, JobsTable, RequestCountsTable, TasksTable, VersionCallsTable } from './tasks.ts'

/** Columns of every row of a served resource, besides its own fields. */
interface Resource extends Revisioned {
  id: ColumnType<number, never, never>
}

/** Columns named `…Key` hold the case-folded text (see `caseFold`), for search, sort and uniqueness. */
export interface UsersTable extends Resource {
  name: string
  nameKey: string
  email: string
  emailKey: string
  address: string | null
  phone: string | null
}

export interface ProductsTable extends Resource {
  name: string
  nameKey: string
  price: number
}

export interface BooksTable extends Resource {
  title: string
  titleKey: string
  author: string
  authorKey: string
  genre: string | null
  genreKey: string | null
}

/** An encrypted secret, and the previous one, which also signs until it expires. */
interface Secret {
  secretSealed: string
  previousSecretSealed: string | null
  previousSecretExpiresAt: string | null
}

export interface WebhooksTable extends Owned, Secret, Revisioned {
  id: string
  event: string
  callbackUrl: string
  description: string | null
  headers: string | null
  payloadStyle: 'plain' | 'envelope'
  status: 'active' | 'paused' | 'disabled'
  statusReason: string | null
  /** The scopes of the token that registered it; null for registrations older than resource events. */
  scopes: string | null
  /** Start of the current series of failed calls; null while calls succeed. */
  failingSince: string | null
  /** When the owner was notified that calls fail. */
  failingTold: string | null
  /** How often it was paused or disabled. */
  stops: Generated<number>
}

/** The secret that signs calls to a report request's own `webhookUrl`, one per owner. */
export interface AccountSecretsTable extends Owned, Secret {
  createdAt: string
}

export interface EventsTable extends Owned {
  id: string
  type: string
  /** The JSON text whose UTF-8 bytes are signed and sent, identical on every attempt. */
  body: string
  /** One-off callback URL from the request that caused the event, called in addition to the registered webhooks. */
  callbackUrl: string | null
  /** Who receives it besides its owner: nobody (null), every webhook (`any`), or webhooks whose client has this scope. */
  audience: string | null
  /** The webhook that the event is about, which does not receive it. */
  exceptWebhook: string | null
  createdAt: string
}

export interface DeliveriesTable {
  id: string
  eventId: string
  /** The type of its event. */
  eventType: Generated<string>
  /** The `stops` of the webhook when the delivery was last scheduled; it is not sent if the webhook has more by now. */
  stops: Generated<number>
  webhookId: string | null
  /** Owner of the webhook; kept after the webhook is deleted. For one-off callback URLs, the owner of the event. */
  ownerClient: Generated<string>
  ownerSubject: Generated<string>
  url: string
  body: string
  status: 'pending' | 'delivered' | 'failed'
  /** Incremented by each redelivery; jobs of earlier rounds are obsolete. */
  round: Generated<number>
  attempts: number
  /** Attempts of earlier rounds; the retry schedule starts again after them. */
  triesBefore: Generated<number>
  /** 1 for a test: attempted once, even while the webhook is paused or disabled. */
  isTest: Generated<number>
  nextAttemptAt: string | null
  createdAt: string
  completedAt: string | null
  /** Why there was no further attempt, if no response explains it. */
  reason: ColumnType<string | null, string | null | undefined, string | null>
  /** The endpoint queue it waits in: see `DeliveryLanesTable`. */
  lane: Generated<string>
  /** End of the lease that a sender holds. */
  leaseUntil: ColumnType<string | null, string | null | undefined, string | null>
  /** Fencing token: incremented by each claim; only the newest holder may record an outcome. */
  fence: Generated<number>
}

/** The queue of an endpoint: when it is due, and the health of the endpoint. */
export interface DeliveryLanesTable {
  lane: string
  /** Earliest time at which a waiting delivery of the queue can be due; null if none waits. */
  dueAt: string | null
  /** Failed attempts since the last success. */
  failures: Generated<number>
  /** No calls before this instant, after too many failures (circuit breaker). */
  openUntil: ColumnType<string | null, string | null | undefined, string | null>
  /** Start times of the calls in the last second: a JSON array of epoch ms. */
  recent: Generated<string>
  /** The owner whose share of sending slots its calls use: client and subject, or the client for one-off callback URLs. */
  owner: Generated<string>
  /** 0 when its last call succeeded, 1 when none has been made yet, 2 when the last one failed. */
  rank: Generated<number>
}

/** The endpoint queues of one owner and rank; none of them is due before `dueAt`, which is null if none waits. */
export interface DeliveryOwnersTable {
  owner: string
  rank: number
  dueAt: string | null
}

/** How many waiting deliveries of an owner were dropped because there were too many. */
export interface DeliveryDropsTable {
  /** In the form of `DeliveryLanesTable.owner`. */
  owner: string
  total: number
  /** Drops that the owner was not yet notified of, and the time of the first of them. */
  unreported: number
  since: string
  reportedAt: string | null
}

export interface AttemptsTable {
  deliveryId: string
  attempt: number
  startedAt: string
  durationMs: number
  statusCode: number | null
  error: string | null
  responseStart: string | null
}

export interface Tables extends AuthTables {
  users: UsersTable
  products: ProductsTable
  books: BooksTable
  jobs: JobsTable
  tasks: TasksTable
  webhooks: WebhooksTable
  accountSecrets: AccountSecretsTable
  events: EventsTable
  deliveries: DeliveriesTable
  deliveryLanes: DeliveryLanesTable
  deliveryOwners: DeliveryOwnersTable
  deliveryDrops: DeliveryDropsTable
  attempts: AttemptsTable
  requestCounts: RequestCountsTable
  versionCalls: VersionCallsTable
  limitWindows: LimitWindowsTable
  quotaUses: QuotaUsesTable
  settings: administration.SettingsTable
  resourceTables: ResourceTablesTable
  answers: AnswersTable
  apiKeys: administration.ApiKeysTable
  auditEntries: administration.AuditEntriesTable
  auditHead: administration.AuditHeadTable
}

export type Task = Selectable<TasksTable>
export type Webhook = Selectable<WebhooksTable>
export type Delivery = Selectable<DeliveriesTable>
export type Client = Selectable<ClientsTable>
