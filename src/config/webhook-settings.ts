import { cidrs } from './address.ts'
import { delays, flag, integer, named } from './setting.ts'

const tries = '0,5,300,1800,7200,18000,36000,50400,72000,86400'
const loopback = '127.0.0.0/8,::1/128'

/** Webhook settings: schedule, timeout, allowed networks, rate per endpoint, waiting deliveries. */
export const webhookSettings = (production: boolean) => ({
  webhookSchedule: named('PLINTH_WEBHOOK_SCHEDULE', delays(tries, 'Seconds before each try of a delivery')),
  webhookTimeoutSeconds: named('PLINTH_WEBHOOK_TIMEOUT', integer(1, 120, 15, 'Seconds a receiver has to answer')),
  webhookInFlight: named('PLINTH_WEBHOOK_IN_FLIGHT', integer(1, 1_000, 4, 'Calls under way to one endpoint')),
  webhookRate: named('PLINTH_WEBHOOK_RATE', integer(0, 1_000, 10, 'Calls a second to one endpoint; 0 for no limit')),
  webhookMaxWaiting: named(
    'PLINTH_WEBHOOK_MAX_WAITING',
    integer(100, 10_000_000, 100_000, 'Deliveries of one owner that may wait; beyond it the oldest are dropped'),
  ),
  webhookAllowCidrs: named('PLINTH_WEBHOOK_ALLOW_CIDRS', cidrs(production ? '' : loopback, 'Private ranges to call')),
  webhookAllowHttp: named('PLINTH_WEBHOOK_ALLOW_HTTP', flag(!production, 'Whether callbacks may be http://')),
})
