import { AssertionError } from 'node:assert'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'

/** The body of a JSON response. */
export type JsonBody = Record<string, unknown>

export interface TestResponse<Body = JsonBody> {
  status: number
  /** The header fields, with names in lower case. */
  headers: Readonly<Record<string, string | string[] | number | undefined>>
  /** The parsed JSON; the text if the response is not JSON, and undefined if it has no content. */
  body: Body
  text: string
}

/** A request that is being sent. Resolves with the response. */
export interface TestRequest<Body = JsonBody> extends Promise<TestResponse<Body>> {
  /** Resolves with the body. If the status differs, rejects with an `AssertionError` that contains the response. */
  expect: (status: number) => Promise<Body>
}

type Headers = Readonly<Record<string, string>>

/** A client that sends requests as one caller. A path starts with the version, such as `/v2/invoices`. */
export interface TestClient {
  get: <Body = JsonBody>(path: string, headers?: Headers) => TestRequest<Body>
  delete: <Body = JsonBody>(path: string, headers?: Headers) => TestRequest<Body>
  /** A `Buffer` or a string is sent as it is, with the given `content-type`; any other body is sent as JSON. */
  post: <Body = JsonBody>(path: string, body?: unknown, headers?: Headers) => TestRequest<Body>
  put: <Body = JsonBody>(path: string, body?: unknown, headers?: Headers) => TestRequest<Body>
  /** Sends a JSON merge patch (RFC 7396). */
  patch: <Body = JsonBody>(path: string, body?: unknown, headers?: Headers) => TestRequest<Body>
}

type Method = 'GET' | 'DELETE' | 'POST' | 'PUT' | 'PATCH'

interface ClientOptions {
  app: FastifyInstance
  /** Null for a caller without credentials. */
  token: string | null
  /** Returns the error that made a request fail; undefined if there was none. */
  causeOf: (requestId: string) => unknown
}

export function testClient(options: ClientOptions): TestClient {
  const send = <Body>(method: Method, path: string, body?: unknown, headers: Headers = {}) =>
    requestOf<Body>(`${method} ${path}`, options, () => inject(options, { method, path, body, headers }))
  return {
    get: (path, headers) => send('GET', path, undefined, headers),
    delete: (path, headers) => send('DELETE', path, undefined, headers),
    post: (path, body, headers) => send('POST', path, body, headers),
    put: (path, body, headers) => send('PUT', path, body, headers),
    patch: (path, body, headers) => send('PATCH', path, body, headers),
  }
}

interface Sent {
  method: Method
  path: string
  body: unknown
  headers: Headers
}

function inject({ app, token }: ClientOptions, { method, path, body, headers }: Sent): Promise<LightMyRequestResponse> {
  const isRaw = typeof body === 'string' || Buffer.isBuffer(body)
  const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
  return app.inject({
    method,
    url: path,
    headers: {
      'x-forwarded-proto': 'https',
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && !isRaw && { 'content-type': type }),
      ...headers,
    },
    ...(body !== undefined && { payload: isRaw ? body : JSON.stringify(body) }),
  })
}

/** Sends a request at once, even if nothing awaits it. */
function requestOf<Body>(
  title: string,
  { causeOf }: ClientOptions,
  send: () => Promise<LightMyRequestResponse>,
): TestRequest<Body> {
  const sent = send()
  const response = sent.then(responseOf<Body>)
  const expect: TestRequest<Body>['expect'] = (status) => {
    // The error is created here, so that its stack contains the line of the test.
    const error = new AssertionError({
      message: title,
      expected: status,
      operator: 'strictEqual',
      stackStartFn: expect,
    })
    return response.then(async ({ status: actual, body, text, headers }) => {
      if (actual === status) return body
      const cause = causeOf(String(headers['x-request-id']))
      const causedBy = cause === undefined ? '' : `\nCaused by ${innermost(cause)}`
      const complete = withMessage(error, `${title}: expected ${status}, got ${actual}: ${text}${causedBy}`)
      throw Object.assign(error, complete, { actual, generatedMessage: false }, cause !== undefined && { cause })
    })
  }
  return Object.assign(response, { expect })
}

/** Returns a message, and the error's stack with this message in place of the error's own. */
const withMessage = ({ stack = '', message: earlier }: Error, message: string) => ({
  message,
  stack: stack.replace(earlier, () => message),
})

/** Returns the stack of an error's innermost cause. */
function innermost(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? (error.stack ?? error.message) : innermost(error.cause)
}

function responseOf<Body>({ statusCode, headers, body: text }: LightMyRequestResponse): TestResponse<Body> {
  const isJson = /^application\/(.+\+)?json\b/.test(String(headers['content-type']))
  const body = text === '' ? undefined : isJson ? JSON.parse(text) : text
  return { status: statusCode, headers, body, text }
}
