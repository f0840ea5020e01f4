import type { IncomingMessage, ServerResponse } from 'node:http'
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

const ids = new WeakMap<ServerResponse, string>()

/** Notes the id of the request behind an answer of the provider, whose events know nothing else that has it. */
export const noteRequestId = (answer: ServerResponse, id: string): unknown => ids.set(answer, id)

export const requestIdOf = (answer: ServerResponse): string | null => ids.get(answer) ?? null
