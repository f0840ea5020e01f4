import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2'
import { request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { after, afterEach, before, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Server as TlsServer } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import type { Drain } from '../../src/http/server/draining.ts'
import { type Http2Options, serveHttp2 } from '../../src/http/server/http2.ts'
import { responseEnd } from '../../src/http/server/response-end.ts'
import { type ServerTimeouts, serverTimeouts } from '../../src/http/server/server-options.ts'
import type { Database } from '../../src/storage/database.ts'
import { localCertificates } from '../../src/tls/certificates.ts'
import { everyScope, type TestApp, testApp, token } from '../support/app.ts'
import { type EngineUnderTest, onSqlite } from '../support/engines.ts'
import { drivenTimers, later, until } from '../support/timers.ts'

const folder = mkdtempSync(join(tmpdir(), 'plinth-http2-'))
after(() => rmSync(folder, { recursive: true }))

interface Sent {
  method?: string
  path: string
  headers?: Record<string, string>
  body?: string
  /** If true, sends no token. */
  anonymous?: boolean
}

interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: string
}

type Times = Partial<ServerTimeouts> & Partial<Pick<Http2Options, 'later' | 'stalledMs'>>

interface Listening extends TestApp {
  db: Database
  port: number
  sessions: Drain
  http1: (sent: Sent) => Promise<Answer>
  http2: (sent: Sent) => Promise<Answer>
  session: ClientHttp2Session
  close: () => Promise<void>
}

const headersOf = ({ headers, anonymous }: Sent) => ({
  host: 'plinth.test',
  'x-request-id': 'same-in-both',
  ...(!anonymous && { authorization: `Bearer ${token(everyScope)}` }),
  ...headers,
})

/** Starts the service with HTTP/1.1 and HTTP/2 on one port. */
async function listening(
  engine: EngineUnderTest,
  { more, later: delay = later, stalledMs, ...times }: Times & { more?: (app: FastifyInstance) => void } = {},
): Promise<Listening> {
  const timeouts = serverTimeouts(times)
  const db = await engine.database()
  const tls = await localCertificates(folder, [], Date.now)
  const service = await testApp(
    db,
    { tls, http2: true, timeouts, corsOrigins: ['https://app.test'], prefixes: ['', '/v2'] },
    more,
  )
  const { app, clock } = service
  assert.ok(app.server instanceof TlsServer)
  const options = { baseUrl: 'https://plinth.test', now: () => clock.now, later: delay, timeouts, handle: app.routing }
  const sessions = serveHttp2(app.server, { ...options, ...(stalledMs && { stalledMs }) })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const session = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false })
  session.on('error', () => {})
  return {
    ...{ ...service, db, port, sessions, session },
    http1: (sent) => overHttp1(port, sent),
    http2: (sent) => overHttp2(session, sent),
    close: async () => {
      session.destroy()
      sessions.cut()
      await app.close()
      await db.close()
      assert.deepEqual(service.faults, [])
    },
  }
}

async function overHttp1(port: number, sent: Sent): Promise<Answer> {
  const { method = 'GET', path, body = '' } = sent
  const headers = { ...headersOf(sent), ...(body && { 'content-length': Buffer.byteLength(body) }) }
  const to = { host: '127.0.0.1', port, path, method, headers, agent: false as const, rejectUnauthorized: false }
  const call = request(to)
  call.end(body)
  const [response] = await once(call, 'response')
  return { status: response.statusCode, headers: response.headers, body: await text(response) }
}

async function overHttp2(session: ClientHttp2Session, sent: Sent): Promise<Answer> {
  const { method = 'GET', path, body = '' } = sent
  const { host, ...headers } = headersOf(sent)
  const length = body && { 'content-length': Buffer.byteLength(body) }
  const target = { ':method': method, ':path': path, ...(host && { ':authority': host }) }
  const stream = session.request({ ...target, ...headers, ...length }, { endStream: body === '' })
  if (body) stream.end(body)
  return answerOf(stream)
}

async function answerOf(stream: ClientHttp2Stream): Promise<Answer> {
  const [{ ':status': status, ...headers }] = await once(stream, 'response')
  return { status, headers: headers as IncomingHttpHeaders, body: await text(stream) }
}

/** Fields left out of the comparison: connection-specific fields, which HTTP/2 does not allow, and the date. */
const ofConnection = new Set(['connection', 'keep-alive', 'transfer-encoding', 'date'])

/** Matches the random request id of a response that was not sent by a handler. */
const ownId = /[\da-f]{8}-[\da-f-]{27}/g

const comparable = ({ status, headers, body }: Answer) => ({
  status,
  headers: Object.entries(headers)
    .filter(([name]) => !ofConnection.has(name))
    .map(([name, value]) => `${name}: ${value}`.replace(ownId, 'id'))
    .toSorted(),
  body: body.replace(ownId, 'id'),
})

const json = { 'content-type': 'application/json' }
const product = JSON.stringify({ name: 'Copper kettle', price: 12.5 })
const requests: [what: string, status: number, sent: Sent][] = [
  ['a new row', 201, { method: 'POST', path: '/products', headers: json, body: product }],
  ['a row', 200, { path: '/products/1' }],
  ['a row without a token', 200, { path: '/products/1', anonymous: true }],
  ['HEAD', 200, { method: 'HEAD', path: '/products/1' }],
  ['an unchanged row', 304, { path: '/products/1', headers: { 'if-none-match': '*' } }],
  ['a list', 200, { path: '/v2/products?limit=1' }],
  ['a replaced row', 200, { method: 'PUT', path: '/products/1', headers: json, body: product }],
  ['a merge patch', 200, { method: 'PATCH', path: '/products/1', headers: json, body: '{"price":13}' }],
  [
    'an outdated tag',
    412,
    { method: 'PATCH', path: '/products/1', headers: { ...json, 'if-match': '"0"' }, body: '{}' },
  ],
  ['invalid JSON', 400, { method: 'POST', path: '/products', headers: json, body: '{' }],
  ['an invalid value', 422, { method: 'POST', path: '/products', headers: json, body: '{"name":"","price":-1}' }],
  [
    'another media type',
    415,
    { method: 'POST', path: '/products', headers: { 'content-type': 'text/csv' }, body: 'a' },
  ],
  ['a body that is too long', 413, { method: 'POST', path: '/products', headers: json, body: ' '.repeat(1_100_000) }],
  ['no acceptable media type', 406, { path: '/products/1', headers: { accept: 'text/csv' } }],
  ['no token', 401, { path: '/users/1', anonymous: true }],
  ['a bad token', 401, { path: '/products/1', headers: { authorization: 'Bearer wrong' } }],
  ['no such row', 404, { path: '/products/99' }],
  ['no such path', 404, { path: '/nothing' }],
  ['a method that the path does not allow', 405, { method: 'PUT', path: '/products' }],
  ['an unknown method', 501, { method: 'BREW', path: '/products' }],
  ['OPTIONS', 204, { method: 'OPTIONS', path: '/products' }],
  [
    'a preflight',
    204,
    {
      ...{ method: 'OPTIONS', path: '/products' },
      headers: { origin: 'https://app.test', 'access-control-request-method': 'POST' },
    },
  ],
  ['a long target', 414, { path: `/products?q=${'a'.repeat(8_300)}` }],
  ['header fields that are too long', 431, { path: '/products', headers: { 'x-long': 'a'.repeat(17_000) } }],
  [
    'too many header fields',
    431,
    {
      path: '/products',
      headers: Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`x-${at}`, '1'])),
    },
  ],
  ['a query that is not UTF-8', 400, { path: '/products?q=%ff' }],
  ['a malformed host', 400, { path: '/products', headers: { host: 'plinth.test:x' } }],
  ['an unknown expectation', 417, { path: '/products', headers: { expect: 'more' } }],
  ['a compressed document', 200, { path: '/openapi.json', headers: { 'accept-encoding': 'gzip' } }],
  ['a page', 200, { path: '/problems/resource-not-found', headers: { accept: 'text/html' } }],
  ['a deleted row', 204, { method: 'DELETE', path: '/products/1' }],
]

onSqlite((engine) => {
  describe('a request over HTTP/2', () => {
    let one: Listening
    let other: Listening
    before(async () => {
      one = await listening(engine)
      other = await listening(engine)
    })
    after(async () => {
      await one.close()
      await other.close()
    })

    for (const [what, status, sent] of requests) {
      it(`${status} for ${what}, with the same headers and body as over HTTP/1.1`, async () => {
        const [first, second] = [await one.http1(sent), await other.http2(sent)]
        assert.equal(first.status, status, first.body)
        assert.deepEqual(comparable(second), comparable(first))
        for (const name of ofConnection) if (name !== 'date') assert.ok(!(name in second.headers), name)
      })
    }
  })

  describe('an HTTP/2 connection', () => {
    let closing: (() => Promise<void>) | undefined
    afterEach(async () => {
      await closing?.()
      closing = undefined
    })
    const started = async (options: Parameters<typeof listening>[1] = {}) => {
      const service = await listening(engine, options)
      closing = service.close
      return service
    }
    const open = { config: { scope: 'public' } } as const

    it('gets 400 if Host differs from :authority', async () => {
      const { session } = await started()
      const { status } = await answerOf(session.request({ ':path': '/products', ':authority': 'one', host: 'other' }))
      assert.equal(status, 400)
    })

    it('gets 501 for CONNECT', async () => {
      const { session } = await started()
      const [{ ':status': status }] = await once(
        session.request({ ':method': 'CONNECT', ':authority': 'a.test:443' }),
        'response',
      )
      assert.equal(status, 501)
    })

    it('is limited by SETTINGS to 100 streams and 64 KiB of header fields', async () => {
      const { session, http2 } = await started()
      await http2({ path: '/livez' })
      const { maxConcurrentStreams, maxHeaderListSize } = session.remoteSettings
      assert.deepEqual([maxConcurrentStreams, maxHeaderListSize], [100, 65_536])
    })

    it('receives each event of a stream as soon as it is sent', async () => {
      const events = new Readable({ read: () => {} })
      const { session } = await started({
        more: (app) => {
          app.get('/events', open, (_request, reply) => reply.type('text/event-stream').send(events))
        },
      })
      const stream = session.request({ ':path': '/events' })
      stream.setEncoding('utf8')
      for (const event of ['one', 'two']) {
        events.push(`data: ${event}\n\n`)
        assert.deepEqual(await once(stream, 'data'), [`data: ${event}\n\n`])
      }
      events.push(null)
      await once(stream.resume(), 'end')
    })

    it('keeps event streams open alongside other requests, and completes them when the service stops', async () => {
      const { session, http2, app } = await started()
      const opened = ['/products?name=Vise', '/products?name=Vise&fields=price'].map((path) => {
        const headers = { accept: 'text/event-stream', authorization: `Bearer ${token(everyScope)}` }
        const stream = session.request({ ':path': path, ':authority': 'plinth.test', ...headers })
        const received = { stream, text: '', isComplete: false }
        stream.setEncoding('utf8').on('data', (part) => (received.text += part))
        stream.on('end', () => (received.isComplete = true)).on('error', () => {})
        return received
      })
      const all = (holds: (received: (typeof opened)[number]) => boolean) => until(() => opened.every(holds))
      await all(({ text }) => text.startsWith('retry: 2000\nid: '))
      const body = JSON.stringify({ name: 'Vise', price: 12.5 })
      const created = await http2({ method: 'POST', path: '/products', headers: json, body })
      assert.equal(created.status, 201)
      await all(({ text }) => text.includes('"price":12.5'))
      const closed = app.close()
      await all(({ isComplete }) => isComplete)
      for (const { text } of opened) assert.match(text, /event: created\ndata: .*\n\nretry: \d+\n\n$/)
      session.destroy()
      await closed
    })

    it('aborts the signal of responseEnd() when a stream is reset, even if the handler calls responseEnd() after the reset', async () => {
      const ends: AbortSignal[] = []
      const waiting = Promise.withResolvers<void>()
      const { session } = await started({
        more: (app) => {
          app.get('/long', open, async (_request, reply) => {
            ends.push(responseEnd(reply))
            await waiting.promise
            ends.push(responseEnd(reply))
            return 'late'
          })
        },
      })
      const stream = session.request({ ':path': '/long' })
      await until(() => ends.length === 1)
      stream.close(constants.NGHTTP2_CANCEL)
      await until(() => ends[0]?.aborted === true)
      waiting.resolve()
      await until(() => ends.length === 2)
      assert.equal(ends[1]?.aborted, true)
    })

    it('gets 408 for a body that does not arrive in time', async () => {
      const timers = drivenTimers()
      const { session } = await started({ later: timers.later })
      const headers = { ...json, authorization: `Bearer ${token(everyScope)}`, 'content-length': 100 }
      const stream = session.request({
        ':method': 'POST',
        ':path': '/products',
        ':authority': 'plinth.test',
        ...headers,
      })
      stream.write('{')
      await until(() => timers.pending().includes(30_000))
      timers.pass(30_000)
      const { status, body } = await answerOf(stream)
      assert.deepEqual([status, JSON.parse(body).errorCode], [408, 'REQUEST_TIMEOUT'])
    })

    it('T-HTTP-18 cancels a stream whose response is not read, but keeps the others', async () => {
      const { session, http2 } = await started({
        stalledMs: 200,
        more: (app) => {
          app.get('/large', open, (_request, reply) => reply.send('a'.repeat(1_000_000)))
        },
      })
      const stream = session.request({ ':path': '/large', ':authority': 'plinth.test' })
      await once(stream, 'response')
      await once(stream, 'close')
      assert.equal(stream.rstCode, constants.NGHTTP2_CANCEL)
      assert.equal((await http2({ path: '/livez' })).status, 200)
    })

    it('is closed after the header timeout if no request arrives, otherwise with GOAWAY after the keep-alive timeout', async () => {
      const { session, port, http2 } = await started({ headersTimeout: 300, keepAliveTimeout: 300 })
      const unused = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false }).on('error', () => {})
      await once(unused, 'close')
      if (session.closed) return
      await http2({ path: '/livez' })
      const [code] = await once(session, 'goaway')
      assert.equal(code, constants.NGHTTP2_NO_ERROR)
    })

    it('T-HTTP-18 is closed if the client resets streams too quickly (CVE-2023-44487)', async () => {
      const { session } = await started({
        more: (app) => {
          app.get('/never', open, () => new Promise(() => {}))
        },
      })
      await once(session, 'remoteSettings')
      const ended = once(session, 'goaway')
      for (let batch = 0; batch < 50 && !session.closed; batch++) {
        const streams = Array.from({ length: 20 }, () =>
          session.request({ ':path': '/never', ':authority': 'plinth.test' }).on('error', () => {}),
        )
        await turn()
        for (const stream of streams) stream.close(constants.NGHTTP2_CANCEL)
        await until(() => session.closed || streams.every((stream) => stream.destroyed))
      }
      const [code] = await ended
      assert.notEqual(code, constants.NGHTTP2_NO_ERROR)
    })

    it('is drained with GOAWAY: it closes after the requests in flight have been handled', async () => {
      const waiting = Promise.withResolvers<void>()
      let isWaiting = false
      const { session, http2, sessions } = await started({
        more: (app) => {
          app.get('/wait', open, async () => {
            isWaiting = true
            await waiting.promise
            return 'done'
          })
        },
      })
      const goaway = once(session, 'goaway')
      const long = http2({ path: '/wait' })
      await until(() => isWaiting)
      sessions.begin()
      const [code, lastStream] = await goaway
      assert.deepEqual([code, lastStream], [constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1])
      await sessions.finish()
      const closed = once(session, 'close')
      waiting.resolve()
      assert.deepEqual([(await long).status, (await long).body], [200, 'done'])
      await closed
    })
  })
})
