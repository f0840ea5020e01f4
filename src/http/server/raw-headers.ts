import { IncomingMessage, type OutgoingHttpHeader, type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'

/** What of Node's answers writes their header section: the lines that are there already, and the fields to add. */
interface Writer {
  _storeHeader: (lines: string, fields: object | undefined) => void
}

/** A field as it was last written. */
interface Line {
  value: unknown
  text: string
}

/** Fields that Node.js acts upon, or has an encoding of its own for. */
const acted = new Set([
  ...['connection', 'content-disposition', 'content-length', 'date', 'expect', 'keep-alive', 'set-cookie', 'trailer'],
  ...['transfer-encoding', 'upgrade'],
])
const fieldName = /^[a-z0-9-]+$/
const fieldValue = /^[\t\x20-\x7e]*$/
const namesKept = 300

const known = new Map<string, Line>()

/** Which policy wrote lines beside the fields of an answer. */
type Author = 'transport' | 'rate' | 'quota' | 'caching'

const writer = ServerResponse.prototype as unknown as Writer

/**
 * An answer whose header section (RFC 9112 §5) is written as one text. Node.js checks and copies field by field, which for
 * the twenty of a usual answer takes a quarter of its whole time; here a field that is the same as in the answer before is
 * neither checked nor put together again. What is unusual is left to Node.js.
 */
class HeadedResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  transport = ''
  rate = ''
  quota = ''
  caching = ''

  _storeHeader(statusLine: string, fields: object | undefined): void {
    const lines = statusLine + this.transport + this.rate + this.quota + this.caching
    // Lists of fields, and those that were set before and have no prototype in Node.js, are its own matter.
    const isPlain = fields !== undefined && Object.getPrototypeOf(fields) === Object.prototype
    if (!isPlain) writer._storeHeader.call(this, lines, fields)
    else {
      const others: OutgoingHttpHeaders = {}
      writer._storeHeader.call(this, lines + linesOf(fields as OutgoingHttpHeaders, others), others)
    }
  }
}

/** Whether this Node.js writes the header section as expected; it is none of its documented ways. */
function isWriterKnown(): boolean {
  const probe = new HeadedResponse(new IncomingMessage(new Socket()))
  probe.transport = 'first: 1\r\n'
  probe.writeHead(200, { 'content-length': '0' })
  const head = (probe as { _header?: unknown })._header
  return typeof head === 'string' && /^HTTP\/1\.1 200 OK\r\nfirst: 1\r\ncontent-length: 0\r\n.*\r\n\r\n$/s.test(head)
}

/** What answers are made of: `HeadedResponse`, or where that cannot work Node's own. */
export const responseClass: typeof ServerResponse = isWriterKnown() ? HeadedResponse : ServerResponse

/**
 * Puts lines on an answer that go out as they are: whole, well-formed, and of fields that nobody else sets. They replace
 * those that the same policy wrote before. A usual answer has a dozen of this kind, and each would take longer as a field.
 */
export function setRawHeaderLines(reply: FastifyReply, author: Author, lines: string): void {
  const { raw } = reply
  if (raw instanceof HeadedResponse) raw[author] = lines
  else putFields(reply, author, lines)
}

const written = new WeakMap<object, Partial<Record<Author, string>>>()

/** The same for answers of another class, such as those that never travel. */
function putFields(reply: FastifyReply, author: Author, lines: string): void {
  const before = written.get(reply.raw) ?? {}
  for (const [name] of fieldsIn(before[author] ?? '')) reply.removeHeader(name)
  for (const [name, value] of fieldsIn(lines)) reply.header(name, value)
  written.set(reply.raw, { ...before, [author]: lines })
}

const fieldsIn = (lines: string): [name: string, value: string][] =>
  Array.from(lines.matchAll(/^(.*?): (.*)\r$/gm), ([, name = '', value = '']) => [name, value])

/** The lines of all fields that only have to be sent; the rest is left to `others`. */
function linesOf(fields: OutgoingHttpHeaders, others: OutgoingHttpHeaders): string {
  let text = ''
  for (const name in fields) {
    const value = fields[name]
    const line = known.get(name)
    if (line !== undefined && line.value === value) text += line.text
    else {
      const made = lineOf(name, value, line)
      if (made === null) others[name] = value
      else text += made
    }
  }
  return text
}

/** Makes the line of a field, in place of the one it had; null where Node.js is to judge or to act. */
function lineOf(name: string, value: OutgoingHttpHeader | undefined, line: Line | undefined): string | null {
  if (typeof value !== 'string' || !fieldValue.test(value)) return null
  const text = `${name}: ${value}\r\n`
  if (line) {
    line.value = value
    line.text = text
    return text
  }
  if (acted.has(name) || !fieldName.test(name) || known.size >= namesKept) return null
  known.set(name, { value, text })
  return text
}
