import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../../config/config.ts'
import { patternsOf } from '../../queue/events.ts'
import { type SessionOptions, withSession } from '../api-session.ts'
import { type Call, jsonOf } from '../demo/api.ts'
import { print, printJson } from '../print.ts'

/** A webhook as returned by the API. */
export interface Registration {
  id: string
  event: string
  callbackUrl: string
  status: string
  statusReason?: string
}

interface Delivery {
  id: string
  eventId: string
  status: 'pending' | 'delivered' | 'failed'
  attempts: { statusCode?: number; durationMs: number; error?: string }[]
}

/** Prints the client's webhooks, at most 200. */
export const listWebhooks = (config: Config, options: SessionOptions & { json?: boolean }): Promise<void> =>
  withSession(config, options, async (call) => {
    const found = await registrations(call)
    if (options.json) return printJson(found)
    for (const { id, status, event, callbackUrl, statusReason } of found) {
      print(
        `${id}  ${status.padEnd(8)}  ${event.padEnd(18)}  ${callbackUrl}${statusReason ? `  (${statusReason})` : ''}`,
      )
    }
  })

const registrations = async (call: Call): Promise<Registration[]> =>
  jsonOf<Registration[]>(await call('GET', '/api/webhooks?limit=200'))

/** Sends an example event to a webhook and prints the outcome. Throws if the event is not delivered. */
export const trigger = (config: Config, event: string, options: SessionOptions & { webhook?: string }): Promise<void> =>
  withSession(config, options, async (call) => {
    const id = options.webhook ?? (await subscribed(call, event)).id
    const path = `/api/webhooks/${encodeURIComponent(id)}`
    const { id: deliveryId } = await jsonOf<Delivery>(await call('POST', `${path}/test`, { json: { event } }))
    const { status, eventId, attempts } = await outcomeOf(call, `${path}/deliveries/${deliveryId}`)
    const [{ statusCode, durationMs = 0, error = 'no attempt was made' } = {}] = attempts
    const outcome = statusCode === undefined ? error : `${statusCode} in ${durationMs} ms`
    if (status !== 'delivered') throw new Error(`${event} was not delivered to ${id}: ${outcome}`)
    print(`${event}  ${eventId}  to ${id}: ${outcome}`)
  })

/** Returns the newest active webhook that subscribes to an event. */
async function subscribed(call: Call, event: string): Promise<Registration> {
  const patterns = patternsOf(event)
  const found = (await registrations(call)).find((one) => one.status === 'active' && patterns.includes(one.event))
  if (found) return found
  throw new Error(`None of your active webhooks subscribes to ${event}: register one, or pass --webhook <id>`)
}

const waitMs = 60_000
const pollMs = 100

/** Polls a delivery until it is no longer pending. Throws after 60 seconds. */
async function outcomeOf(call: Call, path: string): Promise<Delivery> {
  const endMs = performance.now() + waitMs
  for (;;) {
    const delivery = await jsonOf<Delivery>(await call('GET', path))
    if (delivery.status !== 'pending') return delivery
    if (performance.now() > endMs)
      throw new Error(`Nothing was sent within ${waitMs / 1_000} seconds: is a worker running?`)
    await sleep(pollMs)
  }
}
