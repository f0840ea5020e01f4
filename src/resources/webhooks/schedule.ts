const longestWaitSeconds = 86_400

/**
 * How long to wait after the given number of failed tries, in ms: the schedule's delay ±20 %, or longer when the
 * receiver asked for it, up to a day. Null when the schedule is used up. `jitter` is in [0, 1).
 */
export function retryDelayMs(
  schedule: readonly number[],
  tries: number,
  retryAfterSeconds: number | null,
  jitter: () => number,
): number | null {
  const seconds = schedule[tries]
  if (seconds === undefined) return null
  const asked = Math.min(retryAfterSeconds ?? 0, longestWaitSeconds)
  return Math.round(Math.max(seconds * (0.8 + 0.4 * jitter()), asked) * 1_000)
}
