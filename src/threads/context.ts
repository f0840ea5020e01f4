import type { Output } from '../logging/terminal.ts'
import type { ThreadCounts } from '../metrics/metrics.ts'
import type { ThreadMemory } from './memory.ts'
import type { ThreadRole } from './messages.ts'

/** What a service needs to run in one of several threads of a process. */
export interface ThreadContext {
  /** At least 1. Thread 1 also runs the listener for metrics and records the history of metrics, once per process. */
  number: number
  role: ThreadRole
  /** The number of threads that serve requests. */
  serving: number
  /** How many threads share the connections to PostgreSQL. */
  divisor: number
  /** The id of the process in the table `nodes`. */
  nodeId: string
  memory: ThreadMemory
  out: Output
  /** Returns the metric counts of the other threads; gets the counts of this thread. */
  others: (own: ThreadCounts) => Promise<ThreadCounts[]>
}
