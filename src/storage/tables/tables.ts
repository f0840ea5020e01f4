import type { ColumnType, Generated, Selectable } from 'kysely'
import type { ResourceTablesTable } from '../resource-tables/resource-columns.ts'
import type { Owned, Revisioned } from '../rows/revision.ts'
import type * as administration from './administration.ts'
import type { AuthTables, ClientsTable } from './auth.ts'
import type { LimitWindowsTable, QuotaUsesTable } from './limits.ts'
import type { AnswersTable, JobsTable, RequestCountsTable, TasksTable, VersionCallsTable } from './tasks.ts'

/** What every row of a served resource carries besides its own fields. */
interface Resource extends Revisioned {
  id: ColumnType<number, never, never>
}

/** Columns named `…Key` hold the folded text (see `fold`) that search, sort and uniqueness use. */
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

/** A sealed secret, and the one it has replaced, which signs besides until it expires. */
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
  /** Since when every call fails; null while it succeeds. */
  failingSince: string | null
  /** When the owner was told of it. */
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
  /** The JSON text whose UTF-8 bytes are signed and sent, the same on every try. */
  body: string
  /** Address given with the request that caused the event, called besides the registered ones. */
  callbackUrl: string | null
  /** Who hears of it besides its owner: nobody (null), `any` registration, or those whose client has this scope. */
  audience: string | null
  /** The registration that it is about, and that is not told of itself. */
  exceptWebhook: string | null
  createdAt: string
}

export interface DeliveriesTable {
  id: string
  eventId: string
  /** The type of its event. */
  eventType: Generated<string>
  /** Its registration's `stops` when it was last made due: once there are more, it is not sent. */
  stops: Generated<number>
  webhookId: string | null
  /** Whoever owns the registration, also once that is gone; of an address that came with a request, the event. */
  ownerClient: Generated<string>
  ownerSubject: Generated<string>
  url: string
  body: string
  status: 'pending' | 'delivered' | 'failed'
  /** Grows with each redelivery: jobs of an earlier round have nothing to do any more. */
  round: Generated<number>
  attempts: number
  /** The tries of earlier rounds: the schedule starts anew behind them. */
  triesBefore: Generated<number>
  /** 1 for a test: tried once, and also while the registration is paused or disabled. */
  isTest: Generated<number>
  nextAttemptAt: string | null
  createdAt: string
  completedAt: string | null
  /** Why it ended without a further try, where no answer says so. */
  reason: ColumnType<string | null, string | null | undefined, string | null>
  /** The endpoint whose calls it waits among: see `DeliveryLanesTable`. */
  lane: Generated<string>
  /** Until when a sender has it. */
  leaseUntil: ColumnType<string | null, string | null | undefined, string | null>
  /** Fencing token: grows with each claim; only its newest holder may record an outcome. */
  fence: Generated<number>
}

/** An endpoint as the sender sees it: when it looks there next, and how the endpoint fared. */
export interface DeliveryLanesTable {
  lane: string
  /** No waiting delivery of the lane is due before; null when none waits. */
  dueAt: string | null
  /** Failed tries since the last success. */
  failures: Generated<number>
  /** No call before this instant, after too many failures. */
  openUntil: ColumnType<string | null, string | null | undefined, string | null>
  /** When the calls of the last second were begun: a JSON array of epoch ms. */
  recent: Generated<string>
  /** Whose share of the sending slots its calls take: client and subject, or the client of addresses in requests. */
  owner: Generated<string>
  /** 0 when its last call succeeded, 1 when none was made yet, 2 when the last one failed. */
  rank: Generated<number>
}

/** An owner's lanes of one rank: none of them is due before `dueAt`; null when none waits. */
export interface DeliveryOwnersTable {
  owner: string
  rank: number
  dueAt: string | null
}

/** How many waiting deliveries of an owner were dropped because there were too many. */
export interface DeliveryDropsTable {
  /** As lanes name it. */
  owner: string
  total: number
  /** Those that its owner was not notified of yet, and when the first of them was dropped. */
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
