// Runs in its own process: sets environment variables.
import assert from 'node:assert/strict'
import { channel } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it, type TestContext } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { checkTarget } from '../../src/http/ssrf-guard.ts'
import { localCertificates } from '../../src/tls/certificates.ts'
import { type SenderOptions, sender } from '../../src/webhooks/dispatch/http-client.ts'

const shut = { allowHttp: true, allowCidrs: [] }
const open = { allowHttp: true, allowCidrs: ['127.0.0.0/8'] }
const body = Buffer.from('{"taskId":"t-1","status":"completed"}')
const headers = { 'content-type': 'application/json', 'webhook-id': 'msg_1' }
const noon = Date.parse('2026-03-01T12:00:00Z')

type Listening = { port: number; origin: string; connections: () => number }

async function listening(t: TestContext, server: Server): Promise<Listening> {
  const sockets = new Set<Socket>()
  let connections = 0
  server.on('connection', (socket: Socket) => {
    connections += 1
    sockets.add(socket.on('error', () => {}))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port, origin: `http://127.0.0.1:${port}`, connections: () => connections }
}

const receiver = (t: TestContext, listener: RequestListener) => listening(t, createServer(listener))
const receiverTcp = (t: TestContext, listener: (socket: Socket) => void) => listening(t, createTcpServer(listener))

function sending(t: TestContext, options: Partial<SenderOptions> = {}) {
  const client = sender({ policy: open, timeoutMs: 2000, now: Date.now, ...options })
  t.after(() => client.close())
  return (url: string, more: { headers?: Record<string, string>; timeoutMs?: number } = {}) =>
    client.post({ url, headers, body, ...more })
}

// After a response has been read, undici can reuse the connection only in the next event loop iteration.
const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

async function received(request: IncomingMessage): Promise<Buffer> {
  return Buffer.concat(await request.toArray())
}

const answering =
  (status: number, sent: Record<string, string> = {}, text: string | Buffer = ''): RequestListener =>
  (request, response) => {
    request.resume().on('end', () => response.writeHead(status, sent).end(text))
  }

describe('post: the request', () => {
  it('T-WH-03 sends the given bytes and headers, with the URL’s host', async (t) => {
    const seen: { request: IncomingMessage; bytes: Buffer }[] = []
    const { port, origin } = await receiver(t, async (request, response) => {
      seen.push({ request, bytes: await received(request) })
      response.end()
    })
    await sending(t)(`${origin}/hook?a=b%20c`)
    const { request, bytes } = seen[0]!
    assert.deepEqual(bytes, body)
    assert.equal(`${request.method} ${request.url}`, 'POST /hook?a=b%20c')
    assert.equal(request.headers.host, `127.0.0.1:${port}`)
    assert.equal(request.headers['webhook-id'], 'msg_1')
    assert.equal(request.headers['content-length'], String(body.length))
  })

  it('T-SSRF-07 does not let static headers change the host or the framing', async (t) => {
    const seen: IncomingMessage[] = []
    const { port, origin } = await receiver(t, (request, response) => {
      seen.push(request.resume())
      response.end()
    })
    const framing = {
      Host: 'internal',
      'Content-Length': '1',
      'transfer-encoding': 'chunked',
      Connection: 'upgrade',
      expect: 'x',
    }
    const result = await sending(t)(origin, { headers: { ...framing, 'x-mine': 'kept' } })
    assert.equal(result.delivered, true)
    const { host, 'content-length': length, 'x-mine': mine, expect } = seen[0]!.headers
    assert.deepEqual([host, length, mine, expect], [`127.0.0.1:${port}`, String(body.length), 'kept', undefined])
  })

  it('reuses a keep-alive connection for the next call to the same endpoint', async (t) => {
    const server = await receiver(t, answering(200))
    const post = sending(t)
    for (let n = 0; n < 5; n += 1) {
      assert.equal((await post(server.origin)).delivered, true)
      await nextTurn()
    }
    assert.equal(server.connections(), 1)
  })

  it('ignores proxy settings in the environment', async (t) => {
    const proxy = await receiver(t, answering(200))
    const server = await receiver(t, answering(200))
    for (const name of ['HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'NODE_USE_ENV_PROXY']) {
      const before = process.env[name]
      process.env[name] = name === 'NODE_USE_ENV_PROXY' ? '1' : proxy.origin
      t.after(() => {
        if (before === undefined) delete process.env[name]
        else process.env[name] = before
      })
    }
    assert.equal((await sending(t)(server.origin)).delivered, true)
    assert.equal(proxy.connections(), 0)
  })
})

describe('post: outcome by status', () => {
  for (const status of [200, 201, 202, 204, 299]) {
    it(`counts ${status} as delivered`, async (t) => {
      const { origin } = await receiver(t, answering(status, {}, status === 204 ? '' : 'thanks'))
      const { durationMs, ...rest } = await sending(t)(origin)
      assert.ok(durationMs >= 0 && durationMs < 2000)
      assert.deepEqual(rest, {
        status,
        delivered: true,
        gone: false,
        retryAfterSeconds: null,
        error: null,
        cause: null,
        blocked: false,
        responseStart: status === 204 ? '' : 'thanks',
        responseHeaders: null,
      })
    })
  }

  for (const status of [400, 401, 404, 410, 429, 500, 503]) {
    it(`T-WH-05 counts ${status} as not delivered${status === 410 ? ' and gone' : ''}`, async (t) => {
      const { origin } = await receiver(t, answering(status, {}, 'no'))
      const result = await sending(t)(origin)
      assert.deepEqual([result.status, result.delivered, result.gone], [status, false, status === 410])
      assert.deepEqual([result.error, result.responseStart], [`http ${status}`, 'no'])
    })
  }

  for (const status of [301, 302, 303, 307, 308]) {
    it(`T-SSRF-05 does not follow a redirect with ${status}`, async (t) => {
      const second = await receiver(t, answering(200))
      const { origin } = await receiver(t, answering(status, { location: `${second.origin}/` }))
      const result = await sending(t)(origin)
      assert.deepEqual([result.status, result.delivered, result.error], [status, false, 'redirect not followed'])
      assert.equal(second.connections(), 0)
    })
  }
})

describe('post: Retry-After', () => {
  const table: [header: string, seconds: number | null][] = [
    ['0', 0],
    ['120', 120],
    ['86400', 86_400],
    ['86401', 86_400],
    ['99999999', 86_400],
    ['9'.repeat(400), 86_400],
    ['-1', null],
    ['+5', null],
    ['1.5', null],
    ['0x10', null],
    ['1e3', null],
    ['soon', null],
    ['', null],
    ['5, 6', null],
    ['apples 1', null],
    ['2026-03-01T12:01:00Z', null],
    ['Sun, 01 Mar 2026 12:01:00 GMT', 60],
    ['Sunday, 01-Mar-26 12:01:00 GMT', 60],
    ['Sun Mar  1 12:01:00 2026', 60],
    ['Sun, 01 Mar 2026 12:00:00 GMT', 0],
    ['Sun, 01 Mar 2026 11:59:59 GMT', null],
    ['Mon, 01 Mar 2027 12:00:00 GMT', 86_400],
    ['Sun, 99 Mar 2026 12:01:00 GMT', null],
  ]
  it(`T-WH-05 accepts seconds or a date, capped at one day; ignores malformed or past values (${table.length} values)`, async (t) => {
    const { origin } = await receiver(t, (request, response) => {
      const [header] = table[Number(request.url!.slice(1))]!
      request.resume().on('end', () => response.writeHead(503, { 'retry-after': header }).end())
    })
    const post = sending(t, { now: () => noon })
    for (const [n, [header, seconds]] of table.entries()) {
      assert.equal((await post(`${origin}/${n}`)).retryAfterSeconds, seconds, header)
    }
  })
})

describe('post: hostile responses', () => {
  it('T-SSRF-09 ends a call at its time limit if the response body stalls, and counts it as not delivered', async (t) => {
    const { origin } = await receiver(t, (_request, response) => response.writeHead(200).write('begun'))
    const result = await sending(t)(origin, { timeoutMs: 200 })
    assert.deepEqual([result.status, result.delivered, result.error], [200, false, 'timeout'])
    assert.equal(result.responseStart, 'begun')
    assert.ok(result.durationMs >= 190 && result.durationMs < 1000, String(result.durationMs))
  })

  it('T-SSRF-09 ends a call at the sender’s own time limit if it gets no response', async (t) => {
    const { origin } = await receiverTcp(t, () => {})
    const { status, error, delivered } = await sending(t, { timeoutMs: 150 })(origin)
    assert.deepEqual([status, error, delivered], [null, 'timeout', false])
  })

  it('T-SSRF-09 ends a call at its time limit even if the response keeps arriving byte by byte', async (t) => {
    const { origin } = await receiver(t, (_request, response) => {
      const drip = setInterval(() => response.write('.'), 5)
      response.on('close', () => clearInterval(drip))
    })
    const { error, durationMs } = await sending(t)(origin, { timeoutMs: 200 })
    assert.equal(error, 'timeout')
    assert.ok(durationMs < 1000)
  })

  it('T-SSRF-09 stops reading an endless body soon after 64 KiB and closes the connection, but counts the call as delivered', async (t) => {
    const clients: Socket[] = []
    const onSocket = (message: unknown) => void clients.push((message as { socket: Socket }).socket)
    channel('net.client.socket').subscribe(onSocket)
    t.after(() => channel('net.client.socket').unsubscribe(onSocket))
    const closed = Promise.withResolvers<void>()
    const { origin } = await receiver(t, (request, response) => {
      const chunk = Buffer.alloc(16_384, 'x')
      const pour = () => {
        while (!response.destroyed && response.write(chunk));
      }
      request.socket.on('close', () => closed.resolve())
      response.on('drain', pour)
      pour()
    })
    const result = await sending(t)(origin)
    await closed.promise
    assert.deepEqual([result.delivered, result.error], [true, null])
    assert.equal(result.responseStart, 'x'.repeat(4096))
    assert.equal(clients.length, 1)
    // A read from the socket returns at most 64 KiB.
    const { bytesRead = 0 } = clients[0] ?? {}
    assert.ok(bytesRead >= 65_536 && bytesRead <= 4 * 65_536, `${bytesRead} bytes were read`)
  })

  it('T-SSRF-09 stores a compressed body as received, not decompressed', async (t) => {
    const bomb = gzipSync(Buffer.alloc(10_000_000, 'a'))
    const { origin } = await receiver(t, answering(200, { 'content-encoding': 'gzip' }, bomb))
    const result = await sending(t)(origin)
    assert.equal(result.delivered, true)
    assert.ok(result.responseStart!.startsWith('\u001f\ufffd'))
    assert.ok(result.responseStart!.length <= 4096)
    assert.ok(!result.responseStart!.includes('aaaa'))
  })

  it('stores up to 4 KiB of a failed call’s response headers, without cookies', async (t) => {
    const headers = { 'x-reason': 'broken', 'set-cookie': 'session=secret', 'x-long': 'a'.repeat(4_000) }
    const { origin } = await receiver(t, answering(500, { ...headers, 'x-last': 'b'.repeat(100) }, 'no'))
    const stored = JSON.parse(String((await sending(t)(origin)).responseHeaders))
    assert.deepEqual([stored['x-reason'], stored['x-long'].length], ['broken', 4_000])
    assert.deepEqual([stored['set-cookie'], stored['x-last']], [undefined, undefined])
  })

  it('replaces invalid bytes in the stored text, and removes NUL and a character cut off by the limit', async (t) => {
    const bodies = [
      Buffer.from('a\0b\0'),
      Buffer.from([0x61, 0xff, 0x62]),
      Buffer.from(`${'a'.repeat(4095)}é and more`),
    ]
    const { origin } = await receiver(t, (request, response) => {
      request.resume().on('end', () => response.end(bodies[Number(request.url!.slice(1))]))
    })
    const post = sending(t)
    const texts = await Promise.all(bodies.map(async (_, n) => (await post(`${origin}/${n}`)).responseStart))
    assert.deepEqual(texts, ['ab', 'a\ufffdb', 'a'.repeat(4095)])
  })

  for (const [title, response] of [
    ['a response that is not HTTP', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['headers beyond 16 KiB', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(70_000)}\r\n\r\n`],
    ['two different Content-Length headers', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
  ] as const) {
    it(`T-SSRF-09 classifies ${title} as an invalid response`, async (t) => {
      const { origin } = await receiverTcp(t, (socket) => socket.once('data', () => socket.end(response)))
      const result = await sending(t)(origin)
      assert.deepEqual([result.delivered, result.error], [false, 'invalid response'])
    })
  }

  it("reports 'connection reset' if the connection is reset or closed before the response is complete", async (t) => {
    const early = await receiverTcp(t, (socket) => socket.once('data', () => socket.resetAndDestroy()))
    const ended = await receiverTcp(t, (socket) => socket.once('data', () => socket.end()))
    const within = await receiverTcp(t, (socket) =>
      socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc', () => socket.end())),
    )
    const post = sending(t)
    for (const [{ origin }, status] of [
      [early, null],
      [ended, null],
      [within, 200],
    ] as const) {
      const result = await post(origin)
      assert.deepEqual([result.status, result.delivered, result.error], [status, false, 'connection reset'])
    }
  })

  it('T-SSRF-08 reports a closed port as unreachable, with the duration rounded to a tenth of a second', async (t) => {
    const free = createTcpServer().listen(0, '127.0.0.1')
    await once(free, 'listening')
    const { port } = free.address() as AddressInfo
    await once(free.close(), 'close')
    const result = await sending(t)(`http://127.0.0.1:${port}/`)
    assert.deepEqual([result.status, result.error, result.responseStart], [null, 'unreachable', null])
    assert.equal(result.durationMs % 100, 0)
  })

  it('reports a name as unreachable if it does not resolve or has no address', async (t) => {
    const failing = sending(t, {
      lookup: async () => Promise.reject(Object.assign(new Error('x'), { code: 'EAI_AGAIN' })),
    })
    const empty = sending(t, { lookup: async () => [] })
    assert.equal((await failing('http://receiver.test/')).error, 'unreachable')
    assert.equal((await empty('http://receiver.test/')).error, 'unreachable')
  })

  it('applies the time limit to a name resolution that never completes', async (t) => {
    const post = sending(t, { lookup: () => new Promise(() => {}), connectTimeoutMs: 300 })
    const { error, durationMs } = await post('http://receiver.test/', { timeoutMs: 100 })
    assert.equal(error, 'unreachable')
    assert.ok(durationMs < 400, String(durationMs))
  })

  it('applies the connection timeout to a TLS handshake that never completes', async (t) => {
    const { port } = await receiverTcp(t, (socket) => socket.resume())
    const { error, durationMs } = await sending(t, { connectTimeoutMs: 100 })(`https://127.0.0.1:${port}/`)
    assert.equal(error, 'unreachable')
    assert.ok(durationMs < 1900)
  })

  it('never throws, and returns an outcome even for invalid headers and a closed sender', async () => {
    const client = sender({ policy: open, timeoutMs: 1000, now: Date.now })
    const url = 'http://127.0.0.1:9/'
    assert.equal((await client.post({ url, headers: { 'bad name': 'x' }, body })).error, 'invalid request')
    assert.equal((await client.post({ url, headers: { x: 'a\r\nb: c' }, body })).error, 'invalid request')
    await client.close()
    assert.equal((await client.post({ url, headers, body })).error, 'sender closed')
  })

  it('measures durations with the given clock, and reports zero if it goes backwards', async (t) => {
    const { origin } = await receiver(t, answering(200))
    const clock = [5000, 5250, 9000, 8000]
    const post = sending(t, { now: () => clock.shift()! })
    assert.deepEqual([(await post(origin)).durationMs, (await post(origin)).durationMs], [250, 0])
  })
})

describe('post: blocked before any packet is sent', () => {
  const loopback = (port: number) => [
    `http://127.0.0.1:${port}/`,
    `http://127.1:${port}/`,
    `http://2130706433:${port}/`,
    `http://0x7f000001:${port}/`,
    `http://0:${port}/`,
    `http://localhost:${port}/`,
    `http://localhost.:${port}/`,
    `http://[::ffff:127.0.0.1]:${port}/`,
    `http://[::1]:${port}/`,
    `http://user@127.0.0.1:${port}/`,
    'not a url',
  ]

  it('T-SSRF-03 opens no connection to a loopback address in any notation, or for an invalid URL', async (t) => {
    const canary = await receiver(t, answering(200))
    const post = sending(t, { policy: shut })
    for (const url of loopback(canary.port)) {
      const { durationMs: _, ...rest } = await post(url)
      assert.deepEqual(rest, {
        status: null,
        delivered: false,
        gone: false,
        retryAfterSeconds: null,
        error: 'unreachable',
        cause: 'CALLBACK_URL_BLOCKED',
        blocked: true,
        responseStart: null,
        responseHeaders: null,
      })
    }
    assert.equal(canary.connections(), 0)
  })

  it('T-SSRF-04 opens no connection to a name that was public at registration but resolves to loopback at delivery', async (t) => {
    const canary = await receiver(t, answering(200))
    for (let round = 0; round < 100; round += 1) {
      const responses = ['93.184.215.14', '127.0.0.1']
      const lookup = async () => [{ address: responses.shift()! }]
      const url = `http://rebind.test:${canary.port}/`
      assert.equal((await checkTarget(shut, url, lookup)).ok, true)
      const result = await sending(t, { policy: shut, lookup })(url)
      assert.deepEqual([result.blocked, result.error, responses.length], [true, 'unreachable', 0])
    }
    assert.equal(canary.connections(), 0)
  })

  for (const addresses of [
    ['93.184.215.14', '127.0.0.1'],
    ['127.0.0.1', '93.184.215.14'],
    ['2606:4700::1', '::ffff:127.0.0.1'],
    ['junk'],
  ]) {
    it(`T-SSRF-04 blocks a name if any of its addresses is disallowed: ${addresses.join(', ')}`, async (t) => {
      const canary = await receiver(t, answering(200))
      const post = sending(t, { policy: shut, lookup: async () => addresses.map((address) => ({ address })) })
      assert.equal((await post(`http://mixed.test:${canary.port}/`)).blocked, true)
      assert.equal(canary.connections(), 0)
    })
  }

  it('T-SSRF-04 resolves a name once per connection and pins the address, but sends the name as Host', async (t) => {
    const hosts: (string | undefined)[] = []
    const server = await receiver(t, (request, response) => {
      hosts.push(request.headers.host)
      request.resume().on('end', () => response.end())
    })
    const responses = ['127.0.0.1', '10.0.0.1', '10.0.0.1']
    const post = sending(t, { lookup: async () => [{ address: responses.shift()! }] })
    assert.equal((await post(`http://receiver.test:${server.port}/`)).delivered, true)
    await nextTurn()
    assert.equal((await post(`http://receiver.test:${server.port}/`)).delivered, true)
    assert.deepEqual(hosts, Array(2).fill(`receiver.test:${server.port}`))
    assert.equal(responses.length, 2)
  })

  it('T-SSRF-04 tries the next verified address if the first one refuses the connection', async (t) => {
    const server = await receiver(t, answering(200))
    const policy = { allowHttp: true, allowCidrs: ['127.0.0.0/8', '::1/128'] }
    const post = sending(t, { policy, lookup: async () => [{ address: '::1' }, { address: '127.0.0.1' }] })
    assert.equal((await post(`http://localhost:${server.port}/`)).delivered, true)
  })
})

describe('post over TLS', () => {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-send-'))
  let certificates: Awaited<ReturnType<typeof localCertificates>>
  before(async () => {
    certificates = await localCertificates(folder, ['receiver.test'], Date.now)
  })
  after(() => rmSync(folder, { recursive: true }))
  const lookup = async () => [{ address: '127.0.0.1' }]

  async function secure(t: TestContext) {
    const seen: { servername: unknown; alpn: unknown }[] = []
    const server = createSecureServer({ ...certificates, ALPNProtocols: ['h2', 'http/1.1'] }, (request, response) => {
      const socket = request.socket as TLSSocket & { servername: string }
      seen.push({ servername: socket.servername, alpn: socket.alpnProtocol })
      request.resume().on('end', () => response.end())
    })
    return { seen, ...(await listening(t, server)) }
  }

  it('T-SSRF-04 verifies the certificate at a pinned address against the name, and uses HTTP/1.1 even if HTTP/2 is offered', async (t) => {
    const server = await secure(t)
    const post = sending(t, { lookup, ca: readFileSync(certificates.authorityFile, 'utf8') })
    const result = await post(`https://receiver.test:${server.port}/`)
    assert.deepEqual([result.delivered, result.error], [true, null])
    assert.deepEqual(server.seen, [{ servername: 'receiver.test', alpn: 'http/1.1' }])
  })

  it('verifies the certificate at a literal address against that address', async (t) => {
    const server = await secure(t)
    const post = sending(t, { ca: [readFileSync(certificates.authorityFile, 'utf8')] })
    assert.equal((await post(`https://127.0.0.1:${server.port}/`)).delivered, true)
  })

  it('reports the class tls for an untrusted authority, a wrong name and a server without TLS', async (t) => {
    const server = await secure(t)
    const plain = await receiver(t, answering(200))
    const trusting = sending(t, { lookup, ca: readFileSync(certificates.authorityFile, 'utf8') })
    assert.equal((await sending(t, { lookup })(`https://receiver.test:${server.port}/`)).error, 'tls')
    assert.equal((await trusting(`https://other.test:${server.port}/`)).error, 'tls')
    assert.equal((await trusting(`https://receiver.test:${plain.port}/`)).error, 'tls')
    assert.equal(server.seen.length, 0)
  })

  it('ignores NODE_TLS_REJECT_UNAUTHORIZED', async (t) => {
    const server = await secure(t)
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
    t.after(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED)
    assert.equal((await sending(t, { lookup })(`https://receiver.test:${server.port}/`)).error, 'tls')
  })
})
