/** An instant, in ms since the epoch, as tables keep it: fixed-width ISO 8601 text in UTC, which sorts by time. */
export const iso = (ms: number): string => new Date(ms).toISOString()
