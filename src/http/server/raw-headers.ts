import { IncomingMessage, type OutgoingHttpHeader, type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { Writable } from 'node:stream'
import type { FastifyReply } from 'fastify'

/**
 * The private ServerResponse method that writes the header section, given the lines rendered so far and the fields to add.
 */
interface Writer {
  _storeHeader: (lines: string, fields: object | undefined) => void
}

/** The most recently written value of a field, and the line rendered for it. */
interface Line {
  value: unknown
  text: string
}

/** Fields that Node.js interprets or encodes itself. */
const interpreted = new Set([
  ...['connection', 'content-disposition', 'content-length', 'date', 'expect', 'keep-alive', 'set-cookie', 'trailer'],
  ...['transfer-encoding', 'upgrade'],
])
const fieldName = /^[a-z0-9-]+$/
const fieldValue = /^[\t\x20-\x7e]*$/
const maxCachedNames = 300

const known = new Map<string, Line>()

/** A policy that writes raw header lines. */
type Policy = 'transport' | 'rate' | 'quota' | 'caching'

const writer = ServerResponse.prototype as unknown as Writer

/**
 * A response whose header section (RFC 9112 §5) is built as one string. Node.js validates and copies each field, which takes
 * a quarter of its response time for the typical twenty fields. This class does neither for a field whose value is the same
 * as in the previous response. Unusual fields are left to Node.js.
 */
export class HeadedResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  declare transport: string
  declare rate: string
  declare quota: string
  declare caching: string

  _storeHeader(statusLine: string, fields: object | undefined): void {
    const lines = statusLine + this.transport + this.rate + this.quota + this.caching
    // Left to Node.js: fields passed as an array, and fields that were set earlier (Node.js keeps them in an object
    // without a prototype).
    const isPlain = fields !== undefined && Object.getPrototypeOf(fields) === Object.prototype
    if (!isPlain) writer._storeHeader.call(this, lines, fields)
    else {
      const others: OutgoingHttpHeaders = {}
      writer._storeHeader.call(this, lines + linesOf(fields as OutgoingHttpHeaders, others), others)
    }
  }

  /** The header section as sent; null before it is complete. */
  get section(): string | null {
    return (this as unknown as Written)._header
  }

  /** Sends a complete header section and a body in one write; each character is sent as one byte. */
  sendWhole(status: number, text: string): void {
    this.statusCode = status
    const written = this as unknown as Written
    written._header = text
    this.end()
  }
}

// The fast path sets none of these lines, so its responses need no properties for them.
Object.assign(HeadedResponse.prototype, { transport: '', rate: '', quota: '', caching: '' })

/** The private ServerResponse property that holds the header section until it is sent with the first part of the body. */
interface Written {
  _header: string | null
}

/** Returns whether this version of Node.js writes the header section as expected; `_storeHeader` is undocumented. */
function isWriterKnown(): boolean {
  const probe = new HeadedResponse(new IncomingMessage(new Socket()))
  probe.transport = 'first: 1\r\n'
  probe.writeHead(200, { 'content-length': '0' })
  const head = (probe as { _header?: unknown })._header
  return typeof head === 'string' && /^HTTP\/1\.1 200 OK\r\nfirst: 1\r\ncontent-length: 0\r\n.*\r\n\r\n$/s.test(head)
}

/** Returns whether this version of Node.js sends a header section as `sendWhole` expects. */
function isSendingKnown(): boolean {
  const sent: unknown[] = []
  const write = (text: unknown, encoding: string, done: () => void) => {
    sent.push(text, encoding)
    done()
  }
  const probe = new HeadedResponse(new IncomingMessage(new Socket()))
  probe.assignSocket(new Writable({ decodeStrings: false, write }) as Socket)
  const text = 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n\xe9'
  probe.sendWhole(200, text)
  return sent.length === 2 && sent[0] === text && sent[1] === 'latin1' && probe.writableEnded
}

/** Whether `sendWhole` works. */
export const canSendWhole = isWriterKnown() && isSendingKnown()

/** The server's response class: `HeadedResponse`, or the Node.js class if `HeadedResponse` would not work. */
export const responseClass: typeof ServerResponse = isWriterKnown() ? HeadedResponse : ServerResponse

/**
 * Sets raw header lines, which are sent unchanged. They must be complete and well-formed, and nothing else may set the
 * same fields. They replace any lines that the same policy has already set. A typical response has a dozen such lines,
 * and setting each of them as a header field would take longer.
 */
export function setRawHeaderLines(reply: FastifyReply, policy: Policy, lines: string): void {
  const { raw } = reply
  if (raw instanceof HeadedResponse) raw[policy] = lines
  else setFields(reply, policy, lines)
}

const written = new WeakMap<object, Partial<Record<Policy, string>>>()

/** Sets the lines as header fields of a response that is not a `HeadedResponse`, such as one to an injected request. */
function setFields(reply: FastifyReply, policy: Policy, lines: string): void {
  const before = written.get(reply.raw) ?? {}
  for (const [name] of fieldsIn(before[policy] ?? '')) reply.removeHeader(name)
  for (const [name, value] of fieldsIn(lines)) reply.header(name, value)
  written.set(reply.raw, { ...before, [policy]: lines })
}

const fieldsIn = (lines: string): [name: string, value: string][] =>
  Array.from(lines.matchAll(/^(.*?): (.*)\r$/gm), ([, name = '', value = '']) => [name, value])

/** Renders the lines of all plain fields and adds the remaining fields to `others`. */
function linesOf(fields: OutgoingHttpHeaders, others: OutgoingHttpHeaders): string {
  let text = ''
  for (const name in fields) {
    const value = fields[name]
    const line = known.get(name)
    if (line !== undefined && line.value === value) text += line.text
    else {
      const rendered = lineOf(name, value, line)
      if (rendered === null) others[name] = value
      else text += rendered
    }
  }
  return text
}

/** Renders and caches the line of a field; null if Node.js must validate or interpret it. */
function lineOf(name: string, value: OutgoingHttpHeader | undefined, line: Line | undefined): string | null {
  if (typeof value !== 'string' || !fieldValue.test(value)) return null
  const text = `${name}: ${value}\r\n`
  if (line) {
    line.value = value
    line.text = text
    return text
  }
  if (interpreted.has(name) || !fieldName.test(name) || known.size >= maxCachedNames) return null
  known.set(name, { value, text })
  return text
}
