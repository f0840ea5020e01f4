import type { Counted } from '../metrics/metrics.ts'

/** What a thread of the service is started with. */
export interface ThreadData {
  /** At least 1; the threads that serve requests are numbered first. */
  number: number
  role: ThreadRole
  definitionFile: string | null
  port: number
  nodeId: string
  /** How many threads divide the connections to PostgreSQL. */
  divisor: number
  version: string
  /** The terminal of the process, which threads cannot detect. */
  terminal: { isTTY: boolean; columns: number | undefined }
}

/** `serve` has the listeners, `background` the jobs, deliveries and sweeps. */
export type ThreadRole = 'serve' | 'background'

/** Sent by a thread. */
export type FromThread =
  | { event: 'ready' }
  | { event: 'failed'; message: string; exitCode: number | undefined }
  | { event: 'closed' }
  | { event: 'question'; id: number }
  | { event: 'answer'; id: number; counted: Counted }

/** Sent to a thread. */
export type ToThread =
  | { event: 'close' }
  | { event: 'question'; id: number }
  | { event: 'answers'; id: number; counted: Counted[] }

/** How often a thread shows that its event loop runs. */
export const beatMs = 500
