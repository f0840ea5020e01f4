/** What the abusive client does, in the order of a run. */
export const scenarios = [
  ...(['delivery-log', 'webhook-changes', 'report-list', 'audit', 'search', 'user-search'] as const),
  ...(['dead-endpoints', 'streams', 'downloads', 'connections'] as const),
]
export type Scenario = (typeof scenarios)[number]

/** What the process of the abusive client is started with. */
export interface AbuseOrder {
  scenario: Scenario
  port: number
  /** Of the abusive client, with every scope. */
  token: string
  /** Of further clients, each an owner of webhooks. */
  ownerTokens: readonly string[]
  /** The webhook with millions of deliveries. */
  webhookId: string
  /** A large completed report of the abusive client. */
  reportId: string
  /** A task of the abusive client that never ends. */
  endlessTaskId: string
  /** How many endpoints, streams, downloads and connections are used, as a share of the full number. */
  scale: number
}
