import { QueryClient } from '@tanstack/react-query'
import { LoginError } from '../session/oauth.ts'
import { ApiError } from './client.ts'

const maxRetries = 2

const maxDelayMs = 10_000

/** Retries what may succeed soon: network errors, 429 and 5xx, unless Retry-After is too long; never what the service refused. */
function isTransient(error: unknown): boolean {
  if (error instanceof LoginError) return false
  if (!(error instanceof ApiError)) return true
  return (error.status === 429 || error.status >= 500) && retryAfterMs(error) <= maxDelayMs
}

/** Returns the milliseconds of Retry-After (RFC 9110 §10.2.3); 0 if it is absent or a date. */
function retryAfterMs(error: unknown): number {
  const seconds = error instanceof ApiError ? Number(error.response.headers.get('retry-after')) : 0
  return Number.isFinite(seconds) ? seconds * 1_000 : 0
}

/** Queries are cached for 10 s, and polling pauses while the page is hidden. */
export const createQueries = () =>
  new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 10_000,
        retry: (count, error) => count < maxRetries && isTransient(error),
        retryDelay: (attempt, error) => Math.min(maxDelayMs, Math.max(retryAfterMs(error), 500 * 2 ** attempt)),
        refetchIntervalInBackground: false,
      },
      // Without a connection, a change fails at once. It is not sent later.
      mutations: { networkMode: 'always' },
    },
  })
