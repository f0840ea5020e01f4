import { QueryClient } from '@tanstack/react-query'
import { LoginError } from '../session/oauth.ts'
import { ApiError } from './client.ts'

const maxRetries = 2

/** Retries what may succeed later: network errors, 429 and 5xx; never what the service refused. */
function isTransient(error: unknown): boolean {
  if (error instanceof LoginError) return false
  return !(error instanceof ApiError) || error.status === 429 || error.status >= 500
}

/** Waits as long as Retry-After says (RFC 9110 §10.2.3), up to 10 seconds. */
function retryDelay(attempt: number, error: unknown): number {
  const seconds = error instanceof ApiError ? Number(error.response.headers.get('retry-after')) : 0
  return Math.min(10_000, Math.max(seconds * 1_000, 500 * 2 ** attempt))
}

/** Queries are cached for 10 s, and polling pauses while the page is hidden. */
export const createQueries = () =>
  new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 10_000,
        retry: (count, error) => count < maxRetries && isTransient(error),
        retryDelay,
        refetchIntervalInBackground: false,
      },
      // Without a connection, a change fails at once. It is not sent later.
      mutations: { networkMode: 'always' },
    },
  })
