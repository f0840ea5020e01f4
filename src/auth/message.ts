import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'

/** A request as the provider is to read it: the same, but with this body, which was read already. */
export function withBody(raw: IncomingMessage, body: Buffer): IncomingMessage {
  const { method, url, socket, httpVersion, httpVersionMajor, httpVersionMinor } = raw
  const headers = { ...raw.headers }
  delete headers['transfer-encoding']
  headers['content-length'] = String(body.length)
  const message = Object.assign(new Readable({ read: () => {} }), { method, url, headers, socket })
  message.push(body)
  message.push(null)
  return Object.assign(message, { httpVersion, httpVersionMajor, httpVersionMinor }) as unknown as IncomingMessage
}
