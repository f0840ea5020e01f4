import { deepEqual, equal, match, throws } from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener, ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, it } from 'node:test'
import { responseClass } from '../../src/http/server/raw-headers.ts'

/** Returns the raw response of a server without the Date field, which varies. */
async function wire(answering: RequestListener, made: typeof ServerResponse = responseClass, method = 'GET') {
  const server = createServer({ ServerResponse: made }, answering).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.write(`${method} / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
  const answer = await text(socket)
  server.close()
  return answer.replace(/^date: .*\r\n/im, '')
}

/** Splits a response; sorts its fields, because their order has no meaning (RFC 9110 §5.3). */
function parts(answer: string) {
  const [head = '', body] = answer.split('\r\n\r\n')
  const [status, ...fields] = head.split('\r\n')
  return { status, fields: fields.map((line) => line.replace(/^[^:]+/, (name) => name.toLowerCase())).sort(), body }
}

const usual = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`x-field-${at}`, `value ${at}`]))

const answers: Record<string, RequestListener> = {
  'twenty fields and a text body': (_, response) =>
    response.writeHead(200, { ...usual, 'content-length': '2' }).end('ok'),
  'no fields': (_, response) => response.writeHead(204).end(),
  'a 304': (_, response) => response.writeHead(304, { etag: '"1"', vary: 'Accept' }).end(),
  'numbers and lists': (_, response) => response.writeHead(200, { 'x-one': 1, 'x-many': ['a', 'b'] }).end('ok'),
  'two cookies': (_, response) => response.writeHead(200, { 'set-cookie': ['a=1', 'b=2'] }).end(),
  'a closing connection': (_, response) => response.writeHead(200, { connection: 'close', 'x-one': 'a' }).end('ok'),
  'a body of unknown length': (_, response) => {
    response.writeHead(200, { 'x-one': 'a' }).write('first')
    response.end('last')
  },
  'a trailer': (_, response) => {
    response.writeHead(200, { 'transfer-encoding': 'chunked', trailer: 'digest' }).write('part')
    response.addTrailers({ digest: 'x' })
    response.end()
  },
  'a field in ISO 8859-1': (_, response) => response.writeHead(200, { 'x-one': 'caf\u00e9', 'x-two': 'b' }).end(),
  'a file name': (_, response) =>
    response.writeHead(200, { 'content-disposition': 'attachment; filename="a.csv"', 'content-length': '0' }).end(),
  'fields set earlier': (_, response) => {
    response.setHeader('x-one', 'before').setHeader('x-two', 'before')
    response.writeHead(200, { 'x-one': 'after', 'x-three': 'after' }).end('ok')
  },
  'a custom reason phrase': (_, response) => response.writeHead(200, 'Fine', { 'x-one': 'a' }).end('ok'),
  'fields in an array': (_, response) => response.writeHead(200, ['x-one', 'a', 'x-two', 'b']).end('ok'),
}

describe('the header section of a response', () => {
  it('is written by Plinth’s response class on this version of Node.js', () => {
    equal(responseClass === ServerResponse, false)
  })

  for (const [name, answering] of Object.entries(answers)) {
    it(`has the fields that Node.js writes for ${name}, in any order`, async () => {
      const expected = parts(await wire(answering, ServerResponse))
      deepEqual(parts(await wire(answering)), expected)
      // The second time, the fields are cached.
      deepEqual(parts(await wire(answering)), expected)
      deepEqual(
        parts(await wire(answering, responseClass, 'HEAD')),
        parts(await wire(answering, ServerResponse, 'HEAD')),
      )
    })
  }

  it('has the current value of each field, even if a different value is cached', async () => {
    const seen: string[] = []
    for (const value of ['one', 'two', 'two', 'one', '']) {
      const { fields } = parts(await wire((_, response) => response.writeHead(200, { 'x-changing': value }).end()))
      seen.push(...fields.filter((line) => line.startsWith('x-changing')))
    }
    deepEqual(seen, ['x-changing: one', 'x-changing: two', 'x-changing: two', 'x-changing: one', 'x-changing: '])
  })
})

describe('writing a header section (T-HTTP-10)', () => {
  const refused = (headers: Record<string, string>, code: string) =>
    wire((_, response) => {
      throws(() => response.writeHead(200, headers), { code })
      response.destroy()
    }).catch(() => '')

  for (const value of ['a\r\nx-evil: 1', 'a\nb', 'a\rb', 'a\0b', '\u0100', 'a\x7fb', '\r\n\r\nHTTP/1.1 200 OK']) {
    it(`throws for the value ${JSON.stringify(value)}, even if a valid value of the field is cached`, async () => {
      match(await wire((_, response) => response.writeHead(200, { 'x-echo': 'fine' }).end()), /x-echo: fine\r\n/)
      equal(await refused({ 'x-echo': value }, 'ERR_INVALID_CHAR'), '')
    })
  }

  for (const name of ['x evil', 'x:evil', 'x\r\nevil', '']) {
    it(`throws for the name ${JSON.stringify(name)}`, async () => {
      equal(await refused({ [name]: 'a' }, 'ERR_INVALID_HTTP_TOKEN'), '')
    })
  }

  it('throws for a second header section in the same response', async () => {
    const twice = wire((_, response) => {
      response.writeHead(200, { 'x-one': 'a' }).write('a')
      throws(() => response.writeHead(200, { 'x-one': 'b' }), { code: 'ERR_HTTP_HEADERS_SENT' })
      response.end()
    })
    match(await twice, /x-one: a\r\n/)
  })
})
