import type { EventAccess } from '../../queue/events.ts'
import type { Due } from '../queue/claim.ts'
import type { SigningOptions, StartCallSpan } from './build-request.ts'
import type { Sender } from './http-client.ts'
import type { CallOutcome } from './outcome.ts'
import type { RecordAttemptsOptions } from './record-attempts.ts'

/** Options of the dispatcher. */
export interface DispatchOptions extends RecordAttemptsOptions, SigningOptions {
  sender: Pick<Sender, 'post'>
  access: EventAccess
  /** Maximum number of calls in flight in this process, for all endpoints. */
  concurrency: number
  /** How long a claim's lease lasts, in ms; longer than any call takes. */
  leaseMs: number
  onError: (error: unknown) => void
  /** Begins the span of each attempt, if traces are exported. */
  startSpan?: StartCallSpan | undefined
  /** Called with each call's outcome. */
  onCalled?: (due: Due, outcome: CallOutcome) => void
}

/** This process's dispatcher. */
export interface Dispatch {
  /** Checks for due deliveries now. */
  wake: () => void
  /** Resolves when no call is in flight and no due delivery can be sent. */
  settled: () => Promise<void>
  /** Starts no new calls, waits up to `graceMs` for calls in flight, then releases the remaining claims. */
  stop: (graceMs: number) => Promise<void>
}
