import { IncomingMessage, type OutgoingHttpHeader, type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { Socket } from 'node:net'

/** What of an answer this file writes to: where Node.js keeps the text of its head until it goes out. */
interface Head {
  _header: string | null
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

/**
 * An answer whose header section (RFC 9112 §5) is written as one text. Node.js checks and copies field by field, which for
 * the twenty of a usual answer takes a quarter of its whole time; here a field that is the same as in the answer before is
 * neither checked nor put together again. What is unusual is left to Node.js.
 */
class HeadedResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  override writeHead(status: number, ...rest: unknown[]): this {
    const [headers] = rest
    const isUsual = rest.length === 1 && typeof headers === 'object' && headers !== null && !Array.isArray(headers)
    // What was set before is merged, by Node.js.
    if (!isUsual || this.getHeaderNames().length > 0) return super.writeHead(status, ...(rest as [OutgoingHttpHeaders]))
    const { text, others } = parted(headers as OutgoingHttpHeaders)
    super.writeHead(status, others)
    const head = this as unknown as Head
    head._header = `${(head._header as string).slice(0, -2)}${text}\r\n`
    return this
  }
}

/** Whether this Node.js keeps the head as expected; it is none of its documented properties. */
function isHeadKnown(): boolean {
  const probe = new ServerResponse(new IncomingMessage(new Socket()))
  probe.writeHead(200, { probe: '1' })
  const head = (probe as unknown as Head)._header
  return typeof head === 'string' && head.startsWith('HTTP/1.1 200 OK\r\nprobe: 1\r\n') && head.endsWith('\r\n\r\n')
}

/** What answers are made of: `HeadedResponse`, or where that cannot work Node's own. */
export const responseClass: typeof ServerResponse = isHeadKnown() ? HeadedResponse : ServerResponse

const lines = new Map<string, Line>()

/** The lines of all fields that only have to be sent, and the other fields. */
function parted(headers: OutgoingHttpHeaders): { text: string; others: OutgoingHttpHeaders } {
  const others: OutgoingHttpHeaders = {}
  let text = ''
  for (const name in headers) {
    const value = headers[name]
    const line = lines.get(name)
    if (line !== undefined && line.value === value) text += line.text
    else {
      const made = lineOf(name, value, line)
      if (made === null) others[name] = value
      else text += made
    }
  }
  return { text, others }
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
  if (acted.has(name) || !fieldName.test(name) || lines.size >= namesKept) return null
  lines.set(name, { value, text })
  return text
}
