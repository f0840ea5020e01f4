import { randomUUID } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { ErrorsOptions } from './errors.ts'
import { problemBody } from './errors.ts'
import { securityHeaders } from './https.ts'
import { Problem } from './problem.ts'

const byCode: Record<string, Problem> = {
  HPE_HEADER_OVERFLOW: new Problem('HEADERS_TOO_LARGE', 'The request line and headers may have 16 KiB together'),
  ERR_HTTP_REQUEST_TIMEOUT: new Problem('REQUEST_TIMEOUT', 'The request did not arrive in time'),
}
const malformed = new Problem('INVALID_INPUT', 'This is not a well-formed HTTP/1.1 request')

/** Answers what the HTTP parser refuses (RFC 9112 §2.2, §3.2, §6.3): one problem body, then the connection is closed. */
export const answerParserError = ({ baseUrl, now }: ErrorsOptions) =>
  function onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    const problem = byCode[error.code ?? ''] ?? malformed
    const common = { requestId: randomUUID(), timestamp: new Date(now()).toISOString() }
    const body = JSON.stringify(problemBody(problem, baseUrl, common))
    const headers = {
      ...securityHeaders,
      'content-type': 'application/problem+json; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-store',
      'x-error-code': problem.code,
      'x-request-id': common.requestId,
      connection: 'close',
    }
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.end(`HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n${lines.join('')}\r\n${body}`)
  }
