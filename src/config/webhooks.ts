import { cidrs } from './address.ts'
import { delays, flag, integer, named, type Profile } from './setting.ts'

const retries = '0,5,300,1800,7200,18000,36000,50400,72000,86400'
const loopback = '127.0.0.0/8,::1/128'

/**
 * Defines the settings for webhook deliveries: retry schedule, timeout, rate per endpoint, maximum pending deliveries,
 * and allowed networks.
 */
export const webhookSettings = ({ production }: Profile) => ({
  schedule: named('PLINTH_WEBHOOK_SCHEDULE', delays(retries, 'Seconds before each attempt of a delivery')),
  timeoutSeconds: named('PLINTH_WEBHOOK_TIMEOUT', integer(1, 120, 15, 'Seconds in which an endpoint must respond')),
  inFlight: named('PLINTH_WEBHOOK_IN_FLIGHT', integer(1, 1_000, 4, 'Concurrent requests to one endpoint')),
  rate: named('PLINTH_WEBHOOK_RATE', integer(0, 1_000, 10, 'Requests per second to one endpoint; 0 for no limit')),
  maxWaiting: named(
    'PLINTH_WEBHOOK_MAX_WAITING',
    integer(100, 10_000_000, 100_000, 'Pending deliveries of one owner; beyond it the oldest are dropped'),
  ),
  allowCidrs: named(
    'PLINTH_WEBHOOK_ALLOW_CIDRS',
    cidrs(production ? '' : loopback, 'Private networks that endpoints may be in'),
  ),
  allowHttp: named('PLINTH_WEBHOOK_ALLOW_HTTP', flag(!production, 'Whether callback URLs may be http://')),
})
