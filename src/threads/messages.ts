import type { ThreadCounts } from '../metrics/metrics.ts'

/** The `workerData` of a service thread. */
export interface ThreadData {
  /** At least 1. The threads that serve requests have the lowest numbers. */
  number: number
  role: ThreadRole
  definitionFile: string | null
  port: number
  nodeId: string
  /** The number of threads that serve requests. */
  serving: number
  /** How many threads share the connections to PostgreSQL. */
  divisor: number
  version: string
  /** Properties of the process's terminal, which threads cannot detect themselves. */
  terminal: { isTTY: boolean; columns: number | undefined }
}

/** `serve` runs the listeners; `background` runs jobs, deliveries and sweeps. */
export type ThreadRole = 'serve' | 'background'

/** A message from a thread. */
export type ThreadMessage =
  | { event: 'ready' }
  | { event: 'failed'; message: string; exitCode: number | undefined }
  | { event: 'closed' }
  | { event: 'question' | 'answer'; id: number; counted: ThreadCounts }

/** A message to a thread. */
export type ToThread =
  | { event: 'close' }
  | { event: 'question'; id: number }
  | { event: 'answers'; id: number; counted: ThreadCounts[] }

/** The interval between a thread's heartbeats, which show that its event loop is running. */
export const beatMs = 500
