/** What the load generator is told. */
export interface LoadOrder {
  port: number
  tls: boolean
  /** Texts of the requests, sent in turn. */
  requests: string[]
  connections: number
  /** Time under load before counting starts. */
  warmSeconds: number
  seconds: number
  /** Whose CPU time is measured besides the generator's own. */
  serverPid: number
}

/**
 * What it saw. Shares are CPU time per wall time, the generator's without the time it only waited; `others` is what
 * somebody else used of the same core.
 */
export interface LoadResult {
  /** Answers from start to end, the warm-up included. */
  answered: number
  statuses: Record<number, number>
  perSecond: number
  p50Ms: number
  p99Ms: number
  serverShare: number
  loadShare: number
  othersShare: number
  othersLoadShare: number
  /** CPU time of the server per request, in microseconds. */
  serverUs: number
}
