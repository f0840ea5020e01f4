import { familyOf } from '../../queue/events.ts'
import type { EventKind } from '../event-kinds.ts'

/** Every kind of event that a service tells of, by name. */
export type EventKinds = Readonly<Record<string, EventKind>>

const taskId = 'tsk_9mZ4qXb1TzqkPj0y7vWc2A'

/** The events of reports; those of resources join them (`event-kinds.ts`). Only the owner of a task hears of it. */
export const reportEvents: EventKinds = {
  'report.completed': {
    description: 'A report task completed and its result can be downloaded',
    example: { taskId, status: 'completed', resultUrl: `/api/reports/${taskId}/download` },
    audience: null,
  },
  'report.failed': {
    description: 'A report task failed; its status path tells why',
    example: { taskId, status: 'failed' },
    audience: null,
  },
}

/** What a registration may name as its `event`: an exact name, all events of one noun, or `*`. */
export const eventPatterns = (kinds: EventKinds): string[] => [
  ...Object.keys(kinds),
  ...new Set(Object.keys(kinds).map(familyOf)),
  '*',
]

/** The scopes that hearing of a pattern takes; `*` takes none, because it brings what its owner may read. */
export function scopesOfPattern(kinds: EventKinds, pattern: string): string[] {
  const heard = Object.entries(kinds).filter(([name]) => name === pattern || familyOf(name) === pattern)
  const audiences = heard.flatMap(([, { audience }]) => (audience === null || audience === 'any' ? [] : [audience]))
  return [...new Set(audiences)]
}
