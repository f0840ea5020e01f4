import type { EventKind } from '../queue/events.ts'
import { familyOf, patternsOf } from '../queue/events.ts'

/** All of a service's event types, by name. */
export type EventKinds = Readonly<Record<string, EventKind>>

const object = (properties: Record<string, object>) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
})
const text = (description: string) => ({ type: 'string', description })
const instant = (description: string) => ({ type: 'string', format: 'date-time', description })

const taskId = 'tsk_9mZ4qXb1TzqkPj0y7vWc2A'
const ofTask = (status: string) => ({
  taskId: text('Id of the report task'),
  status: { type: 'string', const: status },
})

/** Report events, visible only to the task's owner. Resources add their own events (`resources/change-events.ts`). */
export const reportEvents: EventKinds = {
  'report.completed': {
    description: 'A report task has completed, and its result can be downloaded',
    example: { taskId, status: 'completed', resultUrl: `/api/reports/${taskId}/download` },
    schema: object({ ...ofTask('completed'), resultUrl: text('Path of the download') }),
    audience: null,
  },
  'report.failed': {
    description: 'A report task has failed; GET its status for the reason',
    example: { taskId, status: 'failed' },
    schema: object(ofTask('failed')),
    audience: null,
  },
}

const webhookId = 'whk_Q2hhcmxlcyBCYWJiYWdlXw'
const ofWebhook = {
  webhookId: text('Id of the webhook'),
  event: text('The event pattern that the webhook is registered for'),
}

/**
 * Events about webhooks themselves, sent only to their owner. A test goes only to the tested webhook; the other events
 * never go to the webhook that they are about.
 */
export const webhookEvents = {
  'webhook.test': {
    description: 'A test of this webhook, requested by its owner or an administrator; no other webhook receives it',
    example: { webhookId, event: 'report.*' },
    schema: object(ofWebhook),
    audience: null,
  },
  'webhook.failing': {
    description:
      'Another of your webhooks has been failing for a day, or so many deliveries were waiting that the oldest were dropped',
    example: {
      webhookId,
      event: 'report.*',
      since: '2026-03-01T12:00:00.000Z',
      reason: 'No call has succeeded for a day',
    },
    schema: object({
      ...ofWebhook,
      since: instant('Time of the first failure or of the first dropped delivery'),
      reason: text('What happened, in words'),
    }),
    audience: null,
  },
  'webhook.disabled': {
    description: 'Another of your webhooks was disabled: it is not called until you enable it again',
    example: {
      ...{ webhookId, event: 'report.*', since: '2026-03-01T12:00:00.000Z' },
      reason: 'The endpoint responded with 410 Gone',
    },
    schema: object({
      ...ofWebhook,
      since: instant('When the webhook was disabled'),
      reason: text('Why the webhook was disabled'),
    }),
    audience: null,
  },
} satisfies EventKinds

/**
 * Returns the valid values of a webhook's `event`: exact names, wildcards for all events with the same noun, and `*`.
 */
export const eventPatterns = (kinds: EventKinds): string[] => [
  ...Object.keys(kinds),
  ...new Set(Object.keys(kinds).map(familyOf)),
  '*',
]

/** Returns the event types that a pattern selects. */
export const typesOf = (kinds: EventKinds, pattern: string): string[] =>
  Object.keys(kinds).filter((name) => patternsOf(name).includes(pattern))

/**
 * Returns the scopes required to subscribe to a pattern. `*` requires none, because it delivers only events that the
 * webhook's owner may read.
 */
export function scopesOfPattern(kinds: EventKinds, pattern: string): string[] {
  const matching = pattern === '*' ? [] : typesOf(kinds, pattern).map((name) => kinds[name] as EventKind)
  const audiences = matching.flatMap(({ audience }) => (audience === null || audience === 'any' ? [] : [audience]))
  return [...new Set(audiences)]
}
