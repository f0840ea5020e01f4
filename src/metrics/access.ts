import type { Registry } from 'prom-client'
import { counter } from './samples.ts'

/** An audit entry. Only token requests and logins are counted. */
interface CountedEntry {
  event: string
  details?: Readonly<Record<string, unknown>>
}

/** Callbacks through which the rate limiter, the connection limiter and the audit log report events to count. */
export interface AccessReports {
  /** Called with the name of a limit that has refused a request. */
  onLimited: (limit: string) => void
  onDelayed: (ms: number) => void
  onConnectionsRefused: (refused: number) => void
  onAudit: (entry: CountedEntry) => void
}

const limitNames = ['default', 'reports', 'webhooks', 'token', 'quota_requests', 'quota_reports', 'pace']
const grants = ['client_credentials', 'authorization_code', 'refresh_token', 'password', 'implicit']
/** Error codes from RFC 6749 (§4.1.2.1 and §5.2) and RFC 8707. */
const tokenErrors = [
  ...['invalid_request', 'invalid_client', 'invalid_grant', 'unauthorized_client', 'unsupported_grant_type'],
  ...['invalid_scope', 'invalid_target', 'access_denied', 'server_error', 'temporarily_unavailable'],
]

const loginOutcomes = ['succeeded', 'failed', 'blocked']

/** Returns the name if the list contains it, otherwise `other`, so that the number of series stays bounded. */
const oneOf = (names: readonly string[], name: unknown): string =>
  typeof name === 'string' && names.includes(name) ? name : 'other'

/** Registers the metrics of refused requests, tokens and logins. Returns the functions that count them. */
export function accessMetrics(registry: Registry): AccessReports {
  /** Creates a counter with one label, and starts it at 0 for each of the given values and for `other`. */
  const counted = (name: string, help: string, label: string, values: readonly string[]) => {
    const created = counter(registry, { name, help, labelNames: [label] })
    for (const value of [...values, 'other']) created.inc({ [label]: value }, 0)
    return (value: unknown) => created.inc({ [label]: oneOf(values, value) })
  }
  const single = (name: string, help: string) => counter(registry, { name, help })
  const refused = counted(
    'plinth_limits_refused_total',
    'Requests refused by rate limits and quotas, by limit',
    'limit',
    limitNames,
  )
  const delayed = single('plinth_limits_delayed_total', 'Requests delayed after a burst')
  const delays = single('plinth_limits_delay_seconds_total', 'Total time for which requests were delayed after a burst')
  const connections = single('plinth_http_connections_refused_total', 'Connections reset because too many were open')
  const issued = counted('plinth_oauth_tokens_issued_total', 'Successful token requests, by grant', 'grant', grants)
  const denied = counted(
    'plinth_oauth_tokens_refused_total',
    'Refused token requests, by OAuth error',
    'error',
    tokenErrors,
  )
  const logins = counted('plinth_logins_total', 'Logins with a password, by outcome', 'outcome', loginOutcomes)
  return {
    onLimited: refused,
    onDelayed: (ms) => {
      delayed.inc()
      delays.inc(ms / 1_000)
    },
    onConnectionsRefused: (count) => connections.inc(count),
    onAudit: ({ event, details }) => {
      if (event === 'token.granted') issued(details?.grant)
      else if (event === 'token.refused') denied(details?.error)
      else if (event.startsWith('login.')) logins(event.slice('login.'.length))
    },
  }
}
