import type { Agent, Dispatcher } from 'undici'

/** The response: `start` is at most 4 KiB of its text, `failure` why it is incomplete, including `timeout`. */
export interface EndpointResponse {
  status: number | null
  retryAfter: unknown
  start: string | null
  failure: unknown
}

/** The phase a call was in when it timed out. */
type Phase = 'connecting' | 'waiting for the response' | 'reading the response'

/** The error of a timed-out call; without a connection it has the same class as a refused connection. */
const tookTooLong = (phase: Phase): unknown => ({ code: phase === 'connecting' ? 'ETIMEDOUT' : 'timeout', phase })

const maxReadBytes = 65_536
const maxKeptBytes = 4_096

/** One call, from connecting to the end of the response or of the part that is read. Never rejects. */
export function exchange(agent: Agent, call: Dispatcher.DispatchOptions, limitMs: number): Promise<EndpointResponse> {
  return new Promise((resolve) => {
    const answer: EndpointResponse = { status: null, retryAfter: null, start: null, failure: null }
    const kept: Buffer[] = []
    let size = 0
    let controller: Dispatcher.DispatchController | undefined
    let over = false
    const end = (failure: unknown) => {
      if (over) return
      over = true
      clearTimeout(timer)
      if (answer.status !== null) answer.start = textOf(kept)
      resolve({ ...answer, failure })
    }
    const cut = (failure: unknown) => {
      end(failure)
      controller?.abort(new Error('cut off'))
    }
    const phase = () => {
      if (answer.status !== null) return 'reading the response'
      return controller === undefined ? 'connecting' : 'waiting for the response'
    }
    const timer = setTimeout(() => cut(tookTooLong(phase())), limitMs)
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: (given) => {
        controller = given
        // It waited too long for a connection: do not send.
        if (over) given.abort(new Error('too late'))
      },
      onResponseStart: (_, status, headers) => {
        if (status < 200) return
        answer.status = status
        answer.retryAfter = headers['retry-after']
      },
      onResponseData: (_, chunk) => {
        if (size < maxKeptBytes) kept.push(chunk)
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

/** PostgreSQL text cannot contain NUL; a character split by the cut is dropped. */
function textOf(kept: Buffer[]): string {
  if (kept.length === 0) return ''
  const bytes = Buffer.concat(kept)
  const cut = bytes.length > maxKeptBytes
  return new TextDecoder().decode(bytes.subarray(0, maxKeptBytes), { stream: cut }).replaceAll('\0', '')
}
