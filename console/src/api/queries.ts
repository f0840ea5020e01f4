import { QueryClient } from '@tanstack/react-query'
import { retryAfterMs } from '../session/network.ts'
import { LoginError } from '../session/oauth.ts'
import { ApiError } from './client.ts'

const maxRetries = 2

const maxDelayMs = 10_000

/**
 * Returns whether a retry may succeed: false for a failed login, a 4xx other than 429, or a Retry-After that is too
 * long.
 */
function isTransient(error: unknown): boolean {
  if (error instanceof LoginError) return false
  if (!(error instanceof ApiError)) return true
  return (error.status === 429 || error.status >= 500) && retryAfterMs(error.response) <= maxDelayMs
}

/** Returns the Retry-After of an error response in ms; 0 if there is none. */
const delayOf = (error: unknown): number => (error instanceof ApiError ? retryAfterMs(error.response) : 0)

/** Creates the query cache. Data is fresh for 10 s, and polling pauses while the page is hidden. */
export const createQueries = () =>
  new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 10_000,
        retry: (count, error) => count < maxRetries && isTransient(error),
        retryDelay: (attempt, error) => Math.min(maxDelayMs, Math.max(delayOf(error), 500 * 2 ** attempt)),
        refetchIntervalInBackground: false,
      },
      // Without a connection, a change fails at once instead of being queued.
      mutations: { networkMode: 'always' },
    },
  })
