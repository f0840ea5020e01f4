import type { Output } from '../logging/terminal.ts'
import type { Counted } from '../metrics/metrics.ts'
import type { ThreadMemory } from './memory.ts'
import type { ThreadRole } from './messages.ts'

/** What distinguishes a thread of the service from a process of its own. */
export interface ThreadContext {
  /** At least 1. The first thread also has what exists once per process: the listener for metrics, and their history. */
  number: number
  role: ThreadRole
  /** How many threads divide the connections to PostgreSQL. */
  divisor: number
  /** The process among the nodes. */
  nodeId: string
  memory: ThreadMemory
  out: Output
  /** Returns what the other threads have counted. */
  others: () => Promise<Counted[]>
}
