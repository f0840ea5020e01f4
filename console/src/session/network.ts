/** Thrown when a request gets no response. Its message is shown to the user. */
export class NetworkError extends Error {
  constructor(options?: ErrorOptions) {
    super('The service cannot be reached. Check the connection and whether it is running.', options)
    this.name = 'NetworkError'
  }
}

/** Sends a request like `fetch`, but rejects with a `NetworkError` if there is no response, unless it was aborted. */
export async function request(...sending: Parameters<typeof fetch>): Promise<Response> {
  try {
    return await fetch(...sending)
  } catch (error) {
    if (error instanceof TypeError) throw new NetworkError({ cause: error })
    throw error
  }
}

/** Returns the delay in Retry-After (RFC 9110 §10.2.3) in ms; 0 if the header is absent or a date. */
export function retryAfterMs(response: Response): number {
  const seconds = Number(response.headers.get('retry-after'))
  return Number.isFinite(seconds) ? seconds * 1_000 : 0
}

const maxRetries = 3
const maxRetryDelayMs = 10_000

/**
 * Like `request`, but retries up to three times if the service is busy (503), after the delay in Retry-After (at most
 * ten seconds).
 */
export async function requestPatiently(...sending: Parameters<typeof fetch>): Promise<Response> {
  for (let retries = 0; ; retries++) {
    const response = await request(...sending)
    if (response.status !== 503 || retries === maxRetries) return response
    const delayMs = Math.min(retryAfterMs(response) || 1_000, maxRetryDelayMs)
    await new Promise((resolve) => setTimeout(resolve, delayMs))
  }
}
