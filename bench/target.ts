import { type IncomingMessage, request as plainRequest } from 'node:http'
import { request as secureRequest } from 'node:https'

/** A server under test. */
export interface Target {
  name: 'reference' | 'service'
  pid: number
  port: number
  tls: boolean
}

export interface Answer {
  headers: IncomingMessage['headers']
  body: string
}

type Headers = Record<string, string>

/** What the proxy in front of a service without TLS says of the connection it got the request by. */
export const proxied = (tls: boolean): Headers => (tls ? {} : { 'x-forwarded-proto': 'https' })

type Address = Pick<Target, 'port' | 'tls'>

/** What to ask of a server. */
export interface Question {
  method: string
  path: string
  headers?: Headers
  body?: string
}

/** Asks a server once and gives the answer to be read. */
export function ask({ port, tls }: Address, { method, path, headers, body = '' }: Question) {
  const all = { ...proxied(tls), ...headers, ...(body !== '' && { 'content-length': Buffer.byteLength(body) }) }
  const options = { host: '127.0.0.1', port, method, path, headers: all, agent: false as const }
  return new Promise<IncomingMessage>((resolve, reject) => {
    const start = tls ? secureRequest({ ...options, rejectUnauthorized: false }) : plainRequest(options)
    start.on('response', resolve).on('error', reject).end(body)
  })
}

/** Asks a server once; throws unless the answer has the expected status. */
export async function answerOf(address: Address, expected: number, question: Question): Promise<Answer> {
  const response = await ask(address, question)
  const body = (await response.setEncoding('utf8').toArray()).join('')
  if (response.statusCode === expected) return { headers: response.headers, body }
  const { method, path } = question
  throw new Error(`${method} ${path} was answered with ${response.statusCode}, not ${expected}: ${body}`)
}

/** The text of a request as it travels; the same bytes go to both servers. */
export function requestText(method: string, path: string, headers: Headers, body = ''): string {
  const all = { host: 'localhost', ...headers, ...(body && { 'content-length': String(Buffer.byteLength(body)) }) }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}
