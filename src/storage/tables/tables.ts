import type { ColumnType, Generated, Selectable } from 'kysely'
import type { ResourceTablesTable, SchemaChangesTable } from '../resource-tables/resource-columns.ts'
import type { Owned, Revisioned } from '../rows/revision.ts'
import type * as administration from './administration.ts'
import type { AuthTables, ClientsTable } from './auth.ts'
import type { MetricSamplesTable, RequestLogTable, TrafficTable } from './observed.ts'
import type { BooksTable, DeletedRow, ProductsTable, StoredFilesTable, UsersTable } from './resources.ts'
import type { ChangeLogTables } from './row-changes.ts'
import type {
  AnswersTable,
  BackupsTable,
  DeclaredJobsTable,
  JobSchedulesTable,
  JobsTable,
  RequestCountsTable,
  TasksTable,
  VersionCallsTable,
  WebhookStatisticsTable,
} from './tasks.ts'

/** An encrypted secret, and the previous secret, which is also used to sign until it expires. */
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
  /** The API version whose field names the webhook receives; null for the newest. */
  version: string | null
  status: 'active' | 'paused' | 'disabled'
  statusReason: string | null
  /** The scopes of the token that registered the webhook; null if it was registered before resource events existed. */
  scopes: string | null
  /** When the current series of failed calls started; null while calls succeed. */
  failingSince: string | null
  /** When the owner was notified of failing calls. */
  failingTold: string | null
  /** The number of times that the webhook has been paused or disabled. */
  stops: Generated<number>
}

/** The secret that signs calls to the `webhookUrl` of report requests; one per owner. */
export interface AccountSecretsTable extends Owned, Secret {
  createdAt: string
}

export interface EventsTable extends Owned {
  id: string
  type: string
  /** The JSON text whose UTF-8 bytes are signed and sent, identical on every attempt. */
  body: string
  /** One-off callback URL from the request that caused the event; called in addition to the registered webhooks. */
  callbackUrl: string | null
  /**
   * Recipients besides the event's owner: none (null), every webhook (`any`), or webhooks of clients with this scope.
   */
  audience: string | null
  /** The webhook that the event is about; it does not receive the event. */
  exceptWebhook: string | null
  /**
   * For a row of a resource with access rules: the fields that rules compare, as they were after the change or before
   * the deletion. A JSON object, never sent.
   */
  facts: ColumnType<string | null, string | null | undefined, never>
  /** The trace context of the request or job that caused the event; see `trace-context.ts`. */
  trace: ColumnType<string | null, string | null | undefined, never>
  createdAt: string
}

export interface DeliveriesTable {
  id: string
  eventId: string
  /** The event's type. */
  eventType: Generated<string>
  /** The webhook's `stops` when the delivery was made due. If the webhook's count is now higher, nothing is sent. */
  stops: Generated<number>
  webhookId: string | null
  /** The webhook's owner, kept after the webhook is deleted; for one-off callback URLs, the event's owner. */
  ownerClient: Generated<string>
  ownerSubject: Generated<string>
  url: string
  body: string
  status: 'pending' | 'delivered' | 'failed'
  /** Incremented by each redelivery; jobs from earlier rounds are obsolete. */
  round: Generated<number>
  attempts: number
  /** Number of attempts in earlier rounds; each round starts the retry schedule again. */
  triesBefore: Generated<number>
  /** 1 for a test delivery, which is attempted once, even while the webhook is paused or disabled. */
  isTest: Generated<number>
  nextAttemptAt: string | null
  createdAt: string
  completedAt: string | null
  /** Why the delivery was not attempted again, if no response explains it. */
  reason: ColumnType<string | null, string | null | undefined, string | null>
  /** The endpoint queue in which the delivery waits: see `DeliveryLanesTable`. */
  lane: Generated<string>
  /** When the current sender's lease expires. */
  leaseUntil: ColumnType<string | null, string | null | undefined, string | null>
  /** Fencing token: incremented by each claim; only the newest holder may record an outcome. */
  fence: Generated<number>
}

/** An endpoint's queue: when it is due, and how healthy the endpoint is. */
export interface DeliveryLanesTable {
  lane: string
  /** Earliest time at which a waiting delivery can be due; null if no delivery is waiting. */
  dueAt: string | null
  /** Failed attempts since the last success. */
  failures: Generated<number>
  /** After too many failures, no calls are made before this instant (circuit breaker). */
  openUntil: ColumnType<string | null, string | null | undefined, string | null>
  /** Start times of the calls in the last second: a JSON array of epoch ms. */
  recent: Generated<string>
  /** The owner whose slots the queue's calls occupy: client and subject, or the client for one-off callback URLs. */
  owner: Generated<string>
  /** 0 if the last call succeeded, 1 before the first call, 2 if the last call failed. */
  rank: Generated<number>
}

/** The endpoint queues of one owner and rank. None is due before `dueAt`, which is null if no delivery is waiting. */
export interface DeliveryOwnersTable {
  owner: string
  rank: number
  dueAt: string | null
}

/** How many of an owner's waiting deliveries were dropped because there were too many. */
export interface DeliveryDropsTable {
  /** In the same format as `DeliveryLanesTable.owner`. */
  owner: string
  total: number
  /** The number of dropped deliveries that the owner has not been notified of; `since` is the time of the first. */
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
  /** The response headers of a failed attempt, as JSON text; null if there are none or the attempt succeeded. */
  responseHeaders: ColumnType<string | null, string | null | undefined, never>
}

export interface Tables extends AuthTables, ChangeLogTables {
  users: UsersTable
  products: ProductsTable
  books: BooksTable
  jobs: JobsTable
  declaredJobs: DeclaredJobsTable
  jobSchedules: JobSchedulesTable
  tasks: TasksTable
  webhooks: WebhooksTable
  accountSecrets: AccountSecretsTable
  events: EventsTable
  deliveries: DeliveriesTable
  deliveryLanes: DeliveryLanesTable
  deliveryOwners: DeliveryOwnersTable
  deliveryDrops: DeliveryDropsTable
  attempts: AttemptsTable
  webhookStatistics: WebhookStatisticsTable
  requestCounts: RequestCountsTable
  versionCalls: VersionCallsTable
  limitWindows: administration.LimitWindowsTable
  quotaUses: administration.QuotaUsesTable
  settings: administration.SettingsTable
  dataKeys: administration.DataKeysTable
  resourceTables: ResourceTablesTable
  schemaChanges: SchemaChangesTable
  answers: AnswersTable
  backups: BackupsTable
  apiKeys: administration.ApiKeysTable
  auditEntries: administration.AuditEntriesTable
  auditHead: administration.AuditHeadTable
  nodes: administration.NodesTable
  auditArchives: administration.AuditArchivesTable
  deletedRows: DeletedRow
  storedFiles: StoredFilesTable
  metricSamples: MetricSamplesTable
  traffic: TrafficTable
  requestLog: RequestLogTable
}

export type Task = Selectable<TasksTable>
export type Webhook = Selectable<WebhooksTable>
export type Delivery = Selectable<DeliveriesTable>
export type Client = Selectable<ClientsTable>
