import type { Due } from '../queue/claim.ts'
import type { SigningOptions } from './build-request.ts'
import type { Sender } from './http-client.ts'
import type { Outcome } from './outcome.ts'
import type { RecordOptions } from './record-attempts.ts'

/** What sends deliveries, and how much of it at a time. */
export interface DispatchOptions extends RecordOptions, SigningOptions {
  sender: Pick<Sender, 'post'>
  /** Calls under way at a time in this process, over all endpoints. */
  hands: number
  /** How long a claim holds, in ms: longer than any call takes. */
  leaseMs: number
  onError: (error: unknown) => void
  /** Gets what came of each call. */
  onCalled?: (due: Due, outcome: Outcome) => void
}

/** The sender of deliveries of this process. */
export interface Dispatch {
  /** Looks for due deliveries at once. */
  wake: () => void
  /** Resolves when nothing is under way and nothing that is due by the clock can be sent. */
  settled: () => Promise<void>
  /** Begins no call any more, lets those under way end for up to `graceMs`, gives back the rest. */
  stop: (graceMs: number) => Promise<void>
}
