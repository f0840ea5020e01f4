/** Requests that one kind of client sends, whatever becomes of the ones before. */
export interface Stream {
  name: string
  /** Texts of the requests, sent in turn. */
  requests: string[]
  perSecond: number
  /** Its own: nobody waits because another one's requests are held. */
  connections: number
}

/** What the open-loop generator is told: to send at these rates, on the connections that are free. */
export interface OpenOrder {
  port: number
  tls: boolean
  streams: Stream[]
  seconds: number
  /** Whose CPU time is measured besides the generator's own. */
  serverPid: number
}

/** What became of a stream. Latencies of answers that were no refusal, from the moment a request was due, and from when it was sent. */
export interface StreamResult {
  sent: number
  /** Due for a second, and no connection was free: the client has given up. */
  unsent: number
  statuses: Record<number, number>
  /** 429 and 503 that do not say when to come back. */
  withoutRetryAfter: number
  /** Answers that were no refusal, per second. */
  perSecond: number
  p50Ms: number
  p99Ms: number
  sentP99Ms: number
}

export interface OpenResult {
  streams: Record<string, StreamResult>
  /** Connections that ended without having been told to. */
  broken: number
  serverShare: number
  loadShare: number
  othersShare: number
  othersLoadShare: number
  /** CPU time of the server per answer, in microseconds. */
  serverUs: number
}
