import { randomFillSync } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const safe = /^[A-Za-z0-9._-]{8,64}$/

/** Returns the client's `X-Request-Id` if it consists of 8 to 64 safe characters, otherwise a new id. */
export const requestId = (request: { headers: IncomingMessage['headers'] }): string =>
  requestIdFrom(request.headers['x-request-id'])

/** Returns the value of `X-Request-Id` if it is valid, otherwise a new id. */
export const requestIdFrom = (sent: string | string[] | undefined): string =>
  typeof sent === 'string' && safe.test(sent) ? sent : newId()

const batchSize = 256
const bytesEach = 16
const charactersEach = 36
const bytes = new Uint8Array(batchSize * bytesEach)
const text = Buffer.alloc(batchSize * charactersEach)
const digits = Buffer.from('0123456789abcdef')
const hyphen = 0x2d

let ids = ''
let at = 0

/**
 * Returns a random UUID (version 4, RFC 9562 §5.4), sliced from a batch. `crypto.randomUUID` returns a rope of twenty
 * strings, which would be flattened on each write: to the response and to the access log.
 */
function newId(): string {
  if (at === ids.length) {
    ids = makeIds()
    at = 0
  }
  at += charactersEach
  return ids.slice(at - charactersEach, at)
}

function makeIds(): string {
  randomFillSync(bytes)
  let to = 0
  for (let from = 0; from < bytes.length; from++) {
    const index = from % bytesEach
    if (index === 4 || index === 6 || index === 8 || index === 10) text[to++] = hyphen
    const byte = withVersionBits(index, bytes[from] as number)
    text[to++] = digits[byte >> 4] as number
    text[to++] = digits[byte & 0xf] as number
  }
  return text.toString('latin1')
}

/** Sets the version and variant bits of a UUID byte. */
function withVersionBits(index: number, byte: number): number {
  if (index === 6) return (byte & 0x0f) | 0x40
  return index === 8 ? (byte & 0x3f) | 0x80 : byte
}
