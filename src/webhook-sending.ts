import type { Logger } from 'pino'
import type { Config } from './config/config.ts'
import { failureLog } from './webhooks/dispatch/failure-log.ts'
import { defaultEndpointLimits } from './webhooks/queue/endpoint-queue.ts'

/** Options for webhook dispatch and its logging, from the settings. */
export function webhookSending(settings: Config['webhooks'], log: Logger, now: () => number) {
  const { timeoutSeconds, inFlight, rate, maxWaiting, schedule } = settings
  return {
    callMs: timeoutSeconds * 1_000,
    lanes: {
      ...defaultEndpointLimits,
      inFlight,
      perSecond: rate === 0 ? Number.POSITIVE_INFINITY : rate,
      probeSeconds: Math.min(defaultEndpointLimits.probeSeconds, timeoutSeconds),
    },
    schedule,
    maxWaiting,
    onCalled: failureLog({ now, warn: (line) => log.warn(line, 'a webhook call failed') }),
    onDropped: (owner: string, dropped: number) =>
      log.warn({ owner, dropped, maxWaiting }, 'waiting webhook deliveries were dropped'),
  }
}
