import type { Agent, Dispatcher } from 'undici'

/** A receiver's response. `start` holds at most 4 KiB of text; `failure` is the error that cut the call short, if any. */
export interface EndpointResponse {
  status: number | null
  retryAfter: unknown
  start: string | null
  failure: unknown
}

/** The phase in which a call timed out. */
type Phase = 'connecting' | 'waiting for the response' | 'reading the response'

/** Returns the error of a timed-out call. A timeout before connecting gets the same class as a refused connection. */
const timeoutError = (phase: Phase): unknown => ({ code: phase === 'connecting' ? 'ETIMEDOUT' : 'timeout', phase })

const maxReadBytes = 65_536
const maxStoredBytes = 4_096

/** Makes one call, from connecting until the response ends or enough of it has been read. Never rejects. */
export function exchange(agent: Agent, call: Dispatcher.DispatchOptions, limitMs: number): Promise<EndpointResponse> {
  return new Promise((resolve) => {
    const response: EndpointResponse = { status: null, retryAfter: null, start: null, failure: null }
    const chunks: Buffer[] = []
    let size = 0
    let controller: Dispatcher.DispatchController | undefined
    let over = false
    const end = (failure: unknown) => {
      if (over) return
      over = true
      clearTimeout(timer)
      if (response.status !== null) response.start = textOf(chunks)
      resolve({ ...response, failure })
    }
    const cut = (failure: unknown) => {
      end(failure)
      controller?.abort(new Error('cut off'))
    }
    const phase = () => {
      if (response.status !== null) return 'reading the response'
      return controller === undefined ? 'connecting' : 'waiting for the response'
    }
    const timer = setTimeout(() => cut(timeoutError(phase())), limitMs)
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: (started) => {
        controller = started
        // The call timed out while it waited for a connection, so do not send it.
        if (over) started.abort(new Error('too late'))
      },
      onResponseStart: (_, status, headers) => {
        if (status < 200) return
        response.status = status
        response.retryAfter = headers['retry-after']
      },
      onResponseData: (_, chunk) => {
        if (size < maxStoredBytes) chunks.push(chunk)
        size += chunk.length
        if (size >= maxReadBytes) cut(null)
      },
      onResponseEnd: () => end(null),
      onResponseError: (_, error) => end(error),
    }
    try {
      agent.dispatch(call, handler)
    } catch (error) {
      end(error)
    }
  })
}

/** Decodes the start of the body. Omits NUL, which PostgreSQL text cannot contain, and a character split by the limit. */
function textOf(chunks: Buffer[]): string {
  if (chunks.length === 0) return ''
  const bytes = Buffer.concat(chunks)
  const cut = bytes.length > maxStoredBytes
  return new TextDecoder().decode(bytes.subarray(0, maxStoredBytes), { stream: cut }).replaceAll('\0', '')
}
