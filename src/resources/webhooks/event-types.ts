/** What a subscriber is told of, as `/api/event-types` shows it. */
export interface EventType {
  description: string
  /** A body as `payloadStyle: plain` sends it. */
  example: object
}

const taskId = 'tsk_9mZ4qXb1TzqkPj0y7vWc2A'

/** The events that this release emits, by name; `user.*`, `product.*`, `book.*` and `webhook.*` join them here. */
export const eventTypes: Readonly<Record<string, EventType>> = {
  'report.completed': {
    description: 'A report task completed and its result can be downloaded',
    example: { taskId, status: 'completed', resultUrl: `/api/reports/${taskId}/download` },
  },
  'report.failed': {
    description: 'A report task failed; its status path tells why',
    example: { taskId, status: 'failed' },
  },
}

const family = (type: string): string => `${type.slice(0, type.indexOf('.'))}.*`

/** What a registration may name as its `event`: an exact name, all events of one noun, or `*`. */
export const eventPatterns: readonly string[] = [
  ...Object.keys(eventTypes),
  ...new Set(Object.keys(eventTypes).map(family)),
  '*',
]

/** Every `event` under which registrations hear of an event of this type. */
export const patternsOf = (type: string): string[] => [type, family(type), '*']
