/** The kinds of abuse, in the order in which a run applies them. */
export const scenarios = [
  ...(['delivery-log', 'webhook-changes', 'report-list', 'audit', 'search', 'user-search'] as const),
  ...(['dead-endpoints', 'streams', 'downloads', 'connections'] as const),
]
export type Scenario = (typeof scenarios)[number]

/** The argument passed to the abusive client's process. */
export interface AbuseOrder {
  scenario: Scenario
  port: number
  /** The abusive client's token, with every scope. */
  token: string
  /** Tokens for additional clients that own webhooks. */
  ownerTokens: readonly string[]
  /** The webhook with millions of deliveries. */
  webhookId: string
  /** A large, completed report owned by the abusive client. */
  reportId: string
  /** A task that never ends, owned by the abusive client. */
  endlessTaskId: string
  /** The fraction of the full number of endpoints, streams, downloads and connections that this run uses. */
  scale: number
}
