import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

const headEnd = '\r\n\r\n'

/** A client that sends raw requests on a keep-alive connection, and reconnects if the service has closed it. */
export interface KeepAliveClient {
  /** Sends one request; resolves with the whole response, decoded as Latin-1. */
  send: (request: string) => Promise<string>
  /** Sends several requests at once; resolves with their responses, or with fewer if the service closes the connection. */
  pipeline: (requests: readonly string[]) => Promise<string[]>
  close: () => void
}

export function keepAliveClient(port: number, { tls = false } = {}): KeepAliveClient {
  let socket: Socket | null = null
  let received = ''
  let wake = () => {}
  const opened = async (): Promise<Socket> => {
    if (socket?.writable && socket.readable) return socket
    received = ''
    const to = { port, host: '127.0.0.1', rejectUnauthorized: false }
    const fresh: Socket = tls ? connectTls(to) : connect(to)
    fresh.setNoDelay().setEncoding('latin1')
    socket = fresh
    fresh.on('data', (text) => {
      received += text
      wake()
    })
    fresh.on('error', () => wake()).on('end', () => fresh.destroy())
    fresh.on('close', () => wake())
    await once(fresh, tls ? 'secureConnect' : 'connect')
    return fresh
  }
  const pipeline = async (requests: readonly string[]): Promise<string[]> => {
    const to = await opened()
    to.write(requests.join(''), 'latin1')
    const responses: string[] = []
    for (const request of requests) {
      const length = await lengthOf(() => received, request.startsWith('HEAD '), to)
      if (length === 0) break
      responses.push(received.slice(0, length))
      received = received.slice(length)
    }
    const last = responses.at(-1) ?? ''
    if (/\r\nconnection: close\r\n/i.test(last) && !to.closed) await once(to, 'close')
    return responses
  }
  const lengthOf = async (text: () => string, isHead: boolean, from: Socket): Promise<number> => {
    for (;;) {
      const length = responseLength(text(), isHead)
      if (length > 0 && text().length >= length) return length
      if (from.closed) return 0
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  return {
    pipeline,
    send: async (request) => {
      const [response] = await pipeline([request])
      if (response === undefined) throw new Error('The service closed the connection without a response')
      return response
    },
    close: () => void socket?.destroy(),
  }
}

/**
 * Returns the length of the first response with the interim responses before it; 0 if a header section is incomplete.
 */
function responseLength(text: string, isHead: boolean): number {
  const end = text.indexOf(headEnd)
  if (end < 0) return 0
  const head = text.slice(0, end)
  if (/^HTTP\/1\.1 1\d\d /.test(head)) {
    const rest = responseLength(text.slice(end + headEnd.length), isHead)
    return rest === 0 ? 0 : end + headEnd.length + rest
  }
  if (isHead || /^HTTP\/1\.1 (204|304) /.test(head)) return end + headEnd.length
  const [, length] = /\r\ncontent-length: (\d+)/i.exec(head) ?? []
  if (length === undefined) throw new Error(`A response without Content-Length: ${head}`)
  return end + headEnd.length + Number(length)
}
