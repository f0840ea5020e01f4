import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'

/** A request as the provider is to read it: the same, but with this body, and its target in origin form (RFC 9112 §3.2). */
export function withBody(raw: IncomingMessage, body: Buffer | undefined): IncomingMessage {
  const { method, url = '/', socket, httpVersion, httpVersionMajor, httpVersionMinor } = raw
  const headers = { ...raw.headers }
  delete headers['transfer-encoding']
  if (body) headers['content-length'] = String(body.length)
  const originForm = url.replace(/^https?:\/\/[^/?#]*/i, '')
  const target = { url: originForm || '/', originalUrl: undefined }
  const message = Object.assign(Readable.from(body ? [body] : []), { method, headers, socket, httpVersion })
  return Object.assign(message, target, { httpVersionMajor, httpVersionMinor }) as unknown as IncomingMessage
}
