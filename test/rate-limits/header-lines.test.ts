import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { Problem } from '../../src/http/problems/problem.ts'
import { setRawHeaderLines } from '../../src/http/server/raw-headers.ts'
import { type Mounted, mount, send } from '../http/support.ts'

type TestRequest = { method?: 'GET' | 'HEAD' | 'POST'; url: string; headers?: Record<string, string> }

const secure = { 'x-forwarded-proto': 'https', 'x-request-id': 'trace-0001' }
const requests: Record<string, TestRequest> = {
  'a publicly cacheable response': { url: '/public' },
  'a privately cacheable response': { url: '/private' },
  'an uncacheable response': { url: '/none' },
  'the response to HEAD': { method: 'HEAD', url: '/public' },
  'a 304': { url: '/public', headers: { 'if-none-match': '*' } },
  'a 412 determined after the response was serialized': { url: '/public', headers: { 'if-match': '"1"' } },
  'an error at a publicly cacheable path': { url: '/broken' },
  'the response to a write': { method: 'POST', url: '/public' },
  'a response whose lines were set twice by one policy': { url: '/twice' },
  'a stream': { url: '/stream' },
  'the response for an unknown path': { url: '/nothing' },
  'a redirect from plain HTTP': { url: '/public', headers: { 'x-forwarded-proto': 'http' } },
}

describe('raw header lines', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['caching', 'conditional', 'https', 'errorHandler'], (app) => {
      for (const cache of ['public', 'private', 'none'] as const) {
        app.get(`/${cache}`, { config: { scope: 'public', cache } }, async () => ['a'])
      }
      app.post('/public', { config: { scope: 'public' } }, async () => ({}))
      app.get('/broken', { config: { scope: 'public', cache: 'public' } }, async () => {
        throw new Problem('DUPLICATE_RESOURCE', 'There is one')
      })
      app.get('/stream', { config: { scope: 'public', cache: 'public' } }, (_request, reply) =>
        reply.type('text/plain').send(new Blob(['a']).stream()),
      )
      app.get('/twice', { config: { scope: 'public' } }, async (_request, reply) => {
        setRawHeaderLines(reply, 'rate', 'x-left: 7\r\nx-all: 9\r\n')
        setRawHeaderLines(reply, 'rate', 'x-left: 6\r\nx-all: 9\r\n')
        return {}
      })
    })
    await mounted.app.listen({ host: '127.0.0.1', port: 0 })
  })
  after(() => mounted.app.close())

  /** Returns the header fields of a response as sent, with lower-case names. */
  const overTheWire = async ({ method = 'GET', url, headers }: TestRequest): Promise<[string, string][]> => {
    const socket = connect((mounted.app.server.address() as AddressInfo).port, '127.0.0.1')
    await once(socket, 'connect')
    const lines = Object.entries({ host: 'localhost:80', connection: 'close', ...secure, ...headers })
    socket.write(`${method} ${url} HTTP/1.1\r\n${lines.map((line) => line.join(': ')).join('\r\n')}\r\n\r\n`)
    const [, ...fields] = ((await text(socket)).split('\r\n\r\n', 1)[0] as string).split('\r\n')
    return fields.map((line) => {
      const [name = '', ...value] = line.split(': ')
      return [name.toLowerCase(), value.join(': ')]
    })
  }
  const withoutConnection = (fields: [string, unknown][]) =>
    fields.filter(([name]) => !['connection', 'date', 'keep-alive', 'transfer-encoding'].includes(name)).sort()

  for (const [name, asked] of Object.entries(requests)) {
    it(`are sent exactly once each, like regular header fields, in ${name}`, async () => {
      const fields = await overTheWire(asked)
      const names = fields.map(([name]) => name)
      assert.deepEqual(names, [...new Set(names)])
      const { headers } = await send(mounted, { ...asked, headers: { ...secure, ...asked.headers } })
      assert.deepEqual(withoutConnection(fields), withoutConnection(Object.entries(headers)))
      assert.ok(names.includes('x-request-id') && names.includes('cache-control'))
    })
  }

  it('replace lines written earlier by the same policy', async () => {
    const fields = Object.fromEntries(await overTheWire({ url: '/twice' }))
    assert.deepEqual([fields['x-left'], fields['x-all']], ['6', '9'])
  })
})
