import { useRef } from 'react'
import { ApiError } from './client.ts'

/** Runs `send` with the Idempotency-Key for this content. */
type Attempt = <Result>(content: unknown, send: (key: string) => Promise<Result>) => Promise<Result>

/**
 * Returns a function that sends a request with an Idempotency-Key. The key stays the same until the outcome is known,
 * so that a user who tries again after a lost response does not create a second row. Changed content gets a new key.
 */
export function useAttempt(): Attempt {
  const open = useRef<{ text: string; key: string } | null>(null)
  return async (content, send) => {
    const text = JSON.stringify(content)
    const { key } = open.current?.text === text ? open.current : { key: crypto.randomUUID() }
    open.current = { text, key }
    try {
      const result = await send(key)
      open.current = null
      return result
    } catch (error) {
      if (isFinal(error)) open.current = null
      throw error
    }
  }
}

/** Returns true if the service has not carried out the request and never will. */
const isFinal = (error: unknown) =>
  error instanceof ApiError && error.status < 500 && error.code !== 'IDEMPOTENCY_IN_PROGRESS'
