/** The result of one request attempt, as counted in the summary. */
export type Fate =
  | 'success'
  | '503'
  | '429'
  | 'reset'
  | '409, the key is in use'
  | '412, after a retry'
  | 'no response'
  | 'unexpected'

/** Results that are allowed while faults are injected, because clients must expect them and retry. */
export const toleratedUnderFaults: readonly Fate[] = [
  ...(['success', '503', '429', 'reset', '409, the key is in use', '412, after a retry'] as const),
]

/** Counts attempts by result, and stores descriptions of the first failures. */
export interface Tally {
  counts: Map<Fate, number>
  /** The durations of successful attempts, in ms. */
  times: number[]
  /** The longest time between two successful attempts, in ms. */
  longestGapMs: number
  /** Descriptions of failed attempts, at most 5,000. */
  failures: string[]
  /** Violations of a promise, such as a stale read; each fails the run. */
  violations: Set<string>
  count: (fate: Fate, ms: number, description: string) => void
}

const maxFailures = 5_000

export function newTally(): Tally {
  let lastMs = performance.now()
  const tally: Tally = {
    ...{ counts: new Map(), times: [], longestGapMs: 0, failures: [], violations: new Set() },
    count: (fate, ms, description) => {
      tally.counts.set(fate, (tally.counts.get(fate) ?? 0) + 1)
      if (fate === 'success') {
        tally.times.push(ms)
        tally.longestGapMs = Math.max(tally.longestGapMs, performance.now() - lastMs)
        lastMs = performance.now()
      } else if (tally.failures.length < maxFailures) {
        tally.failures.push(`${new Date().toISOString()} ${fate} after ${Math.round(ms)} ms: ${description}`)
      }
    },
  }
  return tally
}

/** Returns the n-th percentile of the times, or 0 without times. */
export function percentile(times: readonly number[], n: number): number {
  const sorted = times.toSorted((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * n) / 100))] ?? 0
}
