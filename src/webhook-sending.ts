import type { Logger } from 'pino'
import type { Config } from './config/config.ts'
import { failureLog } from './webhooks/dispatch/failure-log.ts'
import { laneLimits } from './webhooks/queue/endpoint-queue.ts'

/** Webhook dispatch as configured, and its logging. */
export function webhookSending(config: Config, log: Logger, now: () => number) {
  const { webhookTimeoutSeconds, webhookInFlight, webhookRate, webhookMaxWaiting: maxWaiting } = config
  return {
    callMs: webhookTimeoutSeconds * 1_000,
    lanes: {
      ...laneLimits,
      inFlight: webhookInFlight,
      perSecond: webhookRate === 0 ? Number.POSITIVE_INFINITY : webhookRate,
      probeSeconds: Math.min(laneLimits.probeSeconds, webhookTimeoutSeconds),
    },
    schedule: config.webhookSchedule,
    maxWaiting,
    onCalled: failureLog({ now, warn: (line) => log.warn(line, 'a webhook call failed') }),
    onDropped: (owner: string, dropped: number) =>
      log.warn({ owner, dropped, maxWaiting }, 'waiting webhook deliveries were dropped'),
  }
}
