import type { Agent, Dispatcher } from 'undici'

type Headers = Readonly<Record<string, string | string[] | undefined>>

/**
 * A receiver's response. `start` holds at most 4 KiB of text; `failure` is the error that cut the call short, if any.
 */
export interface EndpointResponse {
  status: number | null
  headers: Headers
  start: string | null
  failure: unknown
}

/** The phase in which a call timed out. */
type Phase = 'connecting' | 'waiting for the response' | 'reading the response'

/** Returns the error of a timed-out call. A timeout while connecting gets the same class as a refused connection. */
const timeoutError = (phase: Phase): unknown => ({ code: phase === 'connecting' ? 'ETIMEDOUT' : 'timeout', phase })

const maxReadBytes = 65_536
const maxStoredBytes = 4_096

/** Makes one call, from connecting until the response ends or enough of it has been read. Never rejects. */
export function exchange(agent: Agent, call: Dispatcher.DispatchOptions, limitMs: number): Promise<EndpointResponse> {
  return new Promise((resolve) => {
    const response: EndpointResponse = { status: null, headers: {}, start: null, failure: null }
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
        response.headers = headers
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

/**
 * Decodes the start of the body. Omits NUL, which PostgreSQL text cannot contain, and a character split by the limit.
 */
function textOf(chunks: Buffer[]): string {
  if (chunks.length === 0) return ''
  const bytes = Buffer.concat(chunks)
  const cut = bytes.length > maxStoredBytes
  return new TextDecoder().decode(bytes.subarray(0, maxStoredBytes), { stream: cut }).replaceAll('\0', '')
}

/** Returns response headers as JSON text. Omits cookies, which are credentials, and anything beyond about 4 KiB. */
export function headersToStore(headers: Headers): string | null {
  const stored: [name: string, value: string][] = []
  let size = 0
  for (const [name, lines] of Object.entries(headers)) {
    if (lines === undefined || name === 'set-cookie') continue
    const value = [lines].flat().join(', ')
    size += Buffer.byteLength(name) + Buffer.byteLength(value)
    if (size > maxStoredBytes) break
    stored.push([name, value])
  }
  return stored.length === 0 ? null : JSON.stringify(Object.fromEntries(stored))
}
