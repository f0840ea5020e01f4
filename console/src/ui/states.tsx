import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ApiError } from '../api/client.ts'
import { Button } from './button.tsx'

/** Shown while data loads for the first time. */
export function Loading({ what = 'Loading' }: { what?: string }) {
  return (
    <div className="state">
      <div className="loading" aria-hidden="true" />
      <p role="status">{what} …</p>
    </div>
  )
}

/** Shown if a list is empty. `children` describe what the user can do about it. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="state">
      <h2>{title}</h2>
      {children}
    </div>
  )
}

/** Explains a failed request and offers a retry. */
export function Failed({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const isForbidden = error instanceof ApiError && error.status === 403
  return (
    <div className="state" role="alert">
      <h2>{isForbidden ? 'You may not see this' : navigator.onLine ? 'Something went wrong' : 'You are offline'}</h2>
      <p>{messageOf(error)}</p>
      {error instanceof ApiError && error.requestId !== null && (
        <p className="small">
          Request <code>{error.requestId}</code>
        </p>
      )}
      {onRetry && !isForbidden && <Button onPress={onRetry}>Try again</Button>}
    </div>
  )
}

/** The error message of a failed change; renders nothing without an error. */
export function ErrorNotice({ error }: { error: unknown }) {
  if (error === null || error === undefined) return null
  return (
    <p className="notice wrong" role="alert">
      {messageOf(error)}
    </p>
  )
}

/** Returns the message to show for an error. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/**
 * Shows the data of a query, or its loading or error state. If a later request fails, the data stays visible below a
 * notice.
 */
export function Loaded<Data>({
  query,
  children,
}: {
  query: UseQueryResult<Data>
  children: (data: Data) => ReactNode
}) {
  if (query.data !== undefined)
    return (
      <>
        {query.isError && (
          <p className="notice warn" role="status">
            Not up to date: {messageOf(query.error)}
          </p>
        )}
        {children(query.data)}
      </>
    )
  return query.isError ? <Failed error={query.error} onRetry={() => void query.refetch()} /> : <Loading />
}
