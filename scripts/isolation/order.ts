/** The kinds of abuse, in the order of a run. */
export const scenarios = [
  ...(['delivery-log', 'webhook-changes', 'report-list', 'audit', 'search', 'user-search'] as const),
  ...(['dead-endpoints', 'streams', 'downloads', 'connections'] as const),
]
export type Scenario = (typeof scenarios)[number]

/** The argument of the abusive client's process. */
export interface AbuseOrder {
  scenario: Scenario
  port: number
  /** Token of the abusive client, with every scope. */
  token: string
  /** Tokens of further clients, each an owner of webhooks. */
  ownerTokens: readonly string[]
  /** The webhook with millions of deliveries. */
  webhookId: string
  /** A large completed report of the abusive client. */
  reportId: string
  /** A task of the abusive client that never ends. */
  endlessTaskId: string
  /** Fraction of the full number of endpoints, streams, downloads and connections. */
  scale: number
}
