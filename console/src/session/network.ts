/** A request without a response, with a message for the person. */
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
