import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, before, beforeEach, describe, it } from 'node:test'
import { Type } from 'typebox'
import { type Mounted, mount } from './support.ts'

const everyPolicy = [
  'cors',
  'requestIntegrity',
  'methods',
  'contentNegotiation',
  'bodyParsing',
  'compression',
  'accessLog',
] as const
const secure = 'X-Forwarded-Proto: https'
const timeouts = { headersTimeout: 400, requestTimeout: 800, connectionsCheckingInterval: 50 }

/** The bytes to send, and the status of each response; no statuses if the connection is closed without a response. */
type Row = [what: string, bytes: string, ...statuses: number[]]

const lines = (...all: string[]) => `${all.join('\r\n')}\r\n\r\n`
const get = (...headers: string[]) => lines('GET /things HTTP/1.1', 'Host: a', secure, ...headers)
const target = (it: string, method = 'GET') => lines(`${method} ${it} HTTP/1.1`, 'Host: a', secure)
const post = (...headers: string[]) =>
  lines('POST /things HTTP/1.1', 'Host: a', secure, 'Content-Type: application/json', ...headers)
const pen = '{"name":"Pen"}'
const chunked = 'Transfer-Encoding: chunked'
const chunk = (body: string) => `${body.length.toString(16)}\r\n${body}\r\n`
/** A request that reaches a handler only if it is smuggled inside a different request. */
const smuggled = target('/smuggled')

const framing: Row[] = [
  ['CL.TE', `${post('Content-Length: 6', chunked)}0\r\n\r\n${smuggled}`, 400],
  ['TE.CL', `${post(chunked, 'Content-Length: 4')}5c\r\n${smuggled}0\r\n\r\n`, 400],
  ['CL.CL with different values', `${post('Content-Length: 14', 'Content-Length: 0')}${pen}${smuggled}`, 400],
  ['CL.CL with equal values', `${post('Content-Length: 14', 'Content-Length: 14')}${pen}${smuggled}`, 400],
  ['a Content-Length list', `${post('Content-Length: 14, 14')}${pen}${smuggled}`, 400],
  ['TE.TE', `${post(chunked, 'Transfer-Encoding: x')}0\r\n\r\n${smuggled}`, 400],
  [
    'a mixed-case TE header with CL',
    `${post('Content-Length: 3', 'transfer-ENCODING: Chunked')}0\r\n\r\n${smuggled}`,
    400,
  ],
  ['the unknown transfer coding xchunked', `${post('Transfer-Encoding: xchunked')}0\r\n\r\n${smuggled}`, 501],
  ['chunked after a vertical tab', `${post('Transfer-Encoding: \x0bchunked')}0\r\n\r\n${smuggled}`, 400],
  ['chunked before a second coding', `${post('Transfer-Encoding: chunked, gzip')}0\r\n\r\n${smuggled}`, 400],
  ['chunked after an unsupported coding', `${post('Transfer-Encoding: gzip, chunked')}0\r\n\r\n${smuggled}`, 501],
  ['chunked twice', `${post('Transfer-Encoding: chunked, chunked')}0\r\n\r\n${smuggled}`, 400],
  ['identity as a transfer coding', `${post('Transfer-Encoding: identity')}${pen}${smuggled}`, 501],
  ['an empty transfer coding', `${post('Transfer-Encoding:')}${smuggled}`, 400],
  ['chunked coding in HTTP/1.0', `${post(chunked).replace('1.1', '1.0')}0\r\n\r\n${smuggled}`, 400],
  ['a hexadecimal length', `${post('Content-Length: 0xe')}${pen}${smuggled}`, 400],
  ['a length with a sign', `${post('Content-Length: +14')}${pen}${smuggled}`, 400],
  ['a negative length', `${post('Content-Length: -1')}${smuggled}`, 400],
  ['a length with a fraction', `${post('Content-Length: 14.0')}${pen}${smuggled}`, 400],
  ['a length that overflows', post(`Content-Length: ${'9'.repeat(30)}`), 400],
  ['an empty length', `${post('Content-Length:')}${smuggled}`, 400],
  ['a length beyond the limit', post('Content-Length: 1048577'), 413],
  ['a space before the colon', `${post('Content-Length : 14')}${pen}${smuggled}`, 400],
  ['a space before the colon in TE', `${post('Transfer-Encoding : chunked')}0\r\n\r\n${smuggled}`, 400],
  ['a tab before the colon', get('X-A\t: b'), 400],
  ['a folded header line', get('X-A: b\r\n c'), 400],
  ['a folded TE header', `${post('Transfer-Encoding:\r\n chunked')}0\r\n\r\n${smuggled}`, 400],
  ['a folded first header', lines('GET /things HTTP/1.1', ' Host: a', secure), 400],
  ['a bare LF between headers', get('X-A: b\nX-B: c'), 400],
  ['bare LFs instead of CRLFs', get().replaceAll('\r\n', '\n'), 400],
  ['a bare CR in a value', get('X-A: b\rX-B: c'), 400],
  ['a bare CR between headers', get('X-A: b\r\rX-B: c'), 400],
  ['a NUL in a value', get('X-A: b\0c'), 400],
  ['a NUL in a name', get('X\0A: b'), 400],
  ['a header without a colon', get('X-A'), 400],
  ['a header without a name', get(': b'), 400],
  ['a name with non-ASCII letters', get('X-Ä: b'), 400],
  ['a name in brackets', get('[Host]: b'), 400],
]

const chunks: Row[] = [
  ['an invalid chunk size', `${post(chunked)}zz\r\n${pen}\r\n0\r\n\r\n${smuggled}`, 400],
  ['a chunk size with a 0x prefix', `${post(chunked)}0xe\r\n${pen}\r\n0\r\n\r\n${smuggled}`, 400],
  ['a negative chunk size', `${post(chunked)}-e\r\n${pen}\r\n0\r\n\r\n${smuggled}`, 400],
  ['a chunk size that overflows', `${post(chunked)}${'f'.repeat(17)}\r\n${pen}\r\n0\r\n\r\n${smuggled}`, 400],
  ['a chunk size that is too small', `${post(chunked)}2\r\n${pen}\r\n0\r\n\r\n${smuggled}`, 400],
  ['a space after a chunk size', `${post(chunked)}e \r\n${pen}\r\n0\r\n\r\n${smuggled}`, 400],
  ['a bare LF after a chunk size', `${post(chunked)}e\n${pen}\r\n0\r\n\r\n${smuggled}`, 400],
  ['a bare LF after a chunk', `${post(chunked)}e\r\n${pen}\n0\r\n\r\n${smuggled}`, 400],
  ['a chunk without its CRLF', `${post(chunked)}e\r\n${pen}XX0\r\n\r\n${smuggled}`, 400],
  ['a missing last chunk', `${post(chunked)}${chunk(pen)}`, 400],
  ['excessive chunk extensions', `${post(chunked)}e;${'x'.repeat(20_000)}\r\n${pen}\r\n0\r\n\r\n`, 413],
  ['a bare LF in a chunk extension', `${post(chunked)}e;a\nb\r\n${pen}\r\n0\r\n\r\n${smuggled}`, 400],
  ['a malformed trailer', `${post(chunked)}${chunk(pen)}0\r\nX-A\r\n\r\n${smuggled}`, 400],
  ['chunks that exceed the body size limit', post(chunked) + chunk('x'.repeat(65_536)).repeat(17), 413],
]

const single: Row[] = [
  ['two Host lines', get('Host: b'), 400],
  ['two equal Host lines', get('Host: a'), 400],
  ['no Host', lines('GET /things HTTP/1.1', secure), 400],
  ['an invalid Host', lines('GET /things HTTP/1.1', 'Host: a b', secure), 400],
  ['two Authorization lines', get('Authorization: Bearer reader', 'Authorization: Bearer writer'), 400],
  ['two Content-Type lines', `${post('Content-Type: text/plain', 'Content-Length: 14')}${pen}`, 400],
]

const targets: Row[] = [
  ['an absolute URL with a foreign origin', target('http://evil.test/things'), 400],
  ['an absolute URL with a user name', target('https://a@plinth.test/things'), 400],
  ['a target in authority form', target('plinth.test:443'), 400],
  ['a target in asterisk form with GET', target('*'), 400],
  ['a target without a leading slash', target('things'), 400],
  ['an empty target', lines('GET  HTTP/1.1', 'Host: a', secure), 400],
  ['TRACE', target('/things', 'TRACE'), 405],
  ['CONNECT', lines('CONNECT evil.test:443 HTTP/1.1', 'Host: evil.test:443'), 501],
  ['CONNECT to a path', target('/things', 'CONNECT'), 501],
  ['an unknown method', target('/things', 'FETCH'), 501],
  ['a lower-case method', target('/things', 'get'), 501],
  ['PURGE', target('/things', 'PURGE'), 405],
  ['invalid percent-encoding', target('/things/%zz'), 400],
  ['a lone percent sign', target('/things/%'), 400],
  ['percent-encoded invalid UTF-8', target('/things/%ff'), 400],
  ['an encoded NUL', target('/things/%00'), 404],
  ['dots in overlong UTF-8 encoding', target('/things/%c0%ae%c0%ae/smuggled'), 400],
  ['encoded dot segments', target('/things/%2e%2e/smuggled'), 404],
  ['dot segments', target('/things/../smuggled'), 404],
  ['double-encoded dot segments', target('/things/%252e%252e/smuggled'), 404],
  ['an encoded slash', target('/%2fsmuggled'), 404],
  ['two leading slashes', target('//smuggled'), 404],
  ['a backslash', target('/\\smuggled'), 404],
  ['a space', target('/things /smuggled'), 400],
  ['a control character', target('/things\x01'), 400],
  ['a long path', target(`/${'x'.repeat(8_192)}`), 414],
  ['a path longer than the header limit', target(`/${'x'.repeat(17_000)}`), 414],
  ['a method override', `${post('Content-Length: 1', 'X-HTTP-Method-Override: DELETE')}x`, 400],
]

const others: Row[] = [
  ['HTTP/0.9', 'GET /things\r\n', 400],
  ['HTTP/0.9 with a version', lines('GET /things HTTP/0.9', 'Host: a', secure), 400],
  ['HTTP/1.2', lines('GET /things HTTP/1.2', 'Host: a'), 400],
  ['HTTP/2.0', lines('GET /things HTTP/2.0', 'Host: a', secure), 400],
  ['HTTP/11', lines('GET /things HTTP/11', 'Host: a'), 400],
  ['a protocol other than HTTP', lines('GET /things ICAP/1.0', 'Host: a'), 400],
  ['a lower-case version', lines('GET /things http/1.1', 'Host: a'), 400],
  ['an HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['the beginning of a TLS handshake', '\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03', 400],
  ['an SSH banner', 'SSH-2.0-OpenSSH_9.6\r\n', 400],
  ['random bytes', '\x80\x81\x82\xff\xfe\r\n\r\n', 400],
  ['a leading space', ` ${get()}`, 400],
  ['headers of more than 16 KiB', get(`X-A: ${'x'.repeat(17_000)}`), 431],
  ['a header name of more than 16 KiB', get(`${'x'.repeat(17_000)}: a`), 431],
  ['101 header fields', get(...Array.from({ length: 99 }, (_, at) => `X-${at}: a`)), 431],
  ['3,000 header fields', get(...Array.from({ length: 3_000 }, () => 'a:')), 431],
  ['an unknown expectation', `${post('Expect: 200-maybe', 'Content-Length: 14')}${pen}`, 417],
  ['an upgrade with an invalid body', `${post('Connection: upgrade', 'Upgrade: h2c', 'Content-Length: 1')}x`, 400],
]

describe('raw bytes on a socket', () => {
  let mounted: Mounted
  /** Requests that reached a handler. */
  let reached: string[]
  before(async () => {
    const config = { scope: 'public' }
    mounted = await mount(
      [...everyPolicy],
      (app) => {
        app.get('/things', { config }, async () => reached.push('things'))
        app.get('/smuggled', { config }, async () => reached.push('smuggled'))
        const body = Type.Object({ name: Type.String() })
        app.post('/things', { config, schema: { body } }, async ({ body }) =>
          reached.push((body as { name: string }).name),
        )
      },
      { timeouts },
    )
    await mounted.app.listen({ host: '127.0.0.1', port: 0 })
  })
  beforeEach(() => {
    reached = []
  })
  after(() => mounted.app.close())

  const open = async () => {
    const socket = connect((mounted.app.server.address() as AddressInfo).port, '127.0.0.1')
    await once(socket, 'connect')
    return socket
  }
  /** Sends exactly these bytes and reads until the connection ends. */
  const converse = async (bytes: string) => {
    const socket = await open()
    // The server may reset a closed connection while the client is still sending; the response has been read by then.
    socket.on('error', () => {})
    const all = text(socket).catch(() => '')
    socket.end(bytes, 'latin1')
    return answersIn(await all)
  }
  const answersIn = (all: string) =>
    all
      .split(/(?=HTTP\/1\.1 \d{3} )/)
      .filter((answer) => answer !== '')
      .map((answer) => {
        const [head = '', body = ''] = answer.split('\r\n\r\n')
        return { status: Number(head.slice(9, 12)), head, body }
      })
  const isUp = async () => {
    const [answer] = await converse(get())
    assert.equal(answer?.status, 200)
    assert.equal(reached.pop(), 'things')
  }

  const tables: Record<string, Row[]> = {
    'framing (T-HTTP-01)': framing,
    'chunks (T-HTTP-01)': chunks,
    'single-value headers (T-HTTP-02, T-HTTP-03)': single,
    'targets and methods (T-HTTP-04, T-HTTP-05)': targets,
    'other protocols and sizes (T-HTTP-05)': others,
  }
  for (const [name, rows] of Object.entries(tables)) {
    describe(name, () => {
      for (const [what, bytes, ...statuses] of rows) {
        it(`${statuses.join(', ')} for ${what}, and no handler runs`, async () => {
          const answers = await converse(bytes)
          assert.deepEqual(
            answers.map(({ status }) => status),
            statuses,
          )
          assert.deepEqual(reached, [])
          for (const { head, body } of answers) {
            assert.match(head, /\r\ncontent-type: application\/problem\+json/i)
            assert.match(head, /\r\nx-request-id: /i)
            assert.doesNotMatch(head, /\r\n(server|x-powered-by):/i)
            assert.ok(JSON.parse(body).errorCode)
          }
          await isUp()
        })
      }
    })
  }

  describe('slow requests (T-HTTP-06)', () => {
    const slow = async (bytes: string) => {
      const socket = await open()
      const all = text(socket)
      socket.write(bytes, 'latin1')
      return answersIn(await all)
    }
    const cases: [what: string, bytes: string][] = [
      ['incomplete headers', 'GET /things HTTP/1.1\r\nHost: a\r\nX-A: '],
      ['an incomplete request line', 'GET /thi'],
      ['a missing body', post('Content-Length: 14')],
      ['an incomplete body', `${post('Content-Length: 14')}{"name"`],
      ['incomplete chunks', `${post(chunked)}e\r\n{"name"`],
    ]
    for (const [what, bytes] of cases) {
      it(`408 REQUEST_TIMEOUT for ${what}, after which the connection is closed`, async () => {
        const [answer, ...more] = await slow(bytes)
        assert.deepEqual([answer?.status, more], [408, []])
        assert.equal(JSON.parse(answer?.body as string).errorCode, 'REQUEST_TIMEOUT')
        assert.deepEqual(reached, [])
        await isUp()
      })
    }
  })

  describe('several requests on one connection', () => {
    const last = get('Connection: close')
    const statuses = async (bytes: string) => (await converse(bytes)).map(({ status }) => status)

    it('every request gets a response, in order, even if one of them is rejected', async () => {
      assert.deepEqual(await statuses(get() + target('/nothing') + last), [200, 404, 200])
      assert.deepEqual(await statuses(`${post('Content-Length: 1')}{${last}`), [400, 200])
      assert.deepEqual(await statuses(`${post(chunked)}${chunk(pen)}0\r\n\r\n${last}`), [200, 200])
    })

    it('a response in flight is sent before the error response to the next request', async () => {
      assert.deepEqual(await statuses(`${get()}GET / things\r\n\r\n${smuggled}`), [200, 400])
      assert.deepEqual(await statuses(`${get()}${get()}X\0`), [200, 200, 400])
      const tunnel = lines('CONNECT evil.test:443 HTTP/1.1', 'Host: evil.test:443')
      assert.deepEqual(await statuses(`${get()}${tunnel}${smuggled}`), [200, 501])
      const expecting = post('Expect: 200-maybe', 'Content-Length: 14')
      assert.deepEqual(await statuses(`${get()}${expecting}${pen}`), [200, 417])
      assert.deepEqual(reached, Array(5).fill('things'))
    })

    it('data after a malformed request is ignored, even if it looks like a valid request', async () => {
      for (const flawed of [get('Host: b'), target('*'), post('Transfer-Encoding: gzip, chunked')]) {
        assert.deepEqual((await statuses(flawed + smuggled + smuggled)).slice(1), [])
      }
      assert.deepEqual(reached, [])
    })
  })

  describe('expectations (RFC 9110 §10.1.1)', () => {
    it('100 and then 200 for Expect: 100-continue', async () => {
      const answers = await converse(`${post('Expect: 100-continue', 'Content-Length: 14', 'Connection: close')}${pen}`)
      assert.deepEqual(
        answers.map(({ status }) => status),
        [100, 200],
      )
      assert.deepEqual(reached, ['Pen'])
    })
  })

  it('200 with chunk extensions and trailers, which are ignored', async () => {
    const bytes = `${post(chunked, 'Connection: close')}e;a=b;c="d"\r\n${pen}\r\n0;x\r\nX-A: b\r\n\r\n`
    assert.deepEqual(
      (await converse(bytes)).map(({ status }) => status),
      [200],
    )
    assert.deepEqual(reached, ['Pen'])
  })

  it('200 for HTTP/1.0 without Host, after which the connection is closed', async () => {
    assert.deepEqual(
      (await converse(lines('GET /things HTTP/1.0', secure) + smuggled)).map(({ status }) => status),
      [200],
    )
  })

  it('301 over plain HTTP before the body has arrived, and no handler runs', async () => {
    const socket = await open()
    socket.write(post('Content-Length: 14').replace(secure, 'X-A: b'))
    const [answer] = answersIn(String((await once(socket, 'data'))[0]))
    assert.equal(answer?.status, 301)
    socket.destroy()
    assert.deepEqual(reached, [])
  })

  for (const [what, header, rest] of [
    ['ends early', 'Content-Length: 14', pen.slice(0, 4)],
    ['is malformed', chunked, 'x\r\n'],
  ] as const) {
    it(`no second response if the body ${what} after the first response`, async () => {
      const socket = await open()
      socket.write(post(header).replace(secure, 'X-A: b'))
      const [first] = answersIn(String((await once(socket, 'data'))[0]))
      assert.equal(first?.status, 301)
      const more = text(socket)
      socket.end(rest)
      assert.equal(await more, '')
    })
  }
})
