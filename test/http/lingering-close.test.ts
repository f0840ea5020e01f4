import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, beforeEach, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { Type } from 'typebox'
import { redirectServer } from '../../src/http/server/redirect-server.ts'
import { localCertificates } from '../../src/tls/certificates.ts'
import { drivenTimers, later, until } from '../support/timers.ts'
import { type Mounted, mount } from './support.ts'

const secure = 'X-Forwarded-Proto: https'
const lines = (...all: string[]) => `${all.join('\r\n')}\r\n\r\n`
const post = (path: string, ...headers: string[]) =>
  lines(`POST ${path} HTTP/1.1`, 'Host: a', secure, 'Content-Type: application/json', ...headers)
const piece = Buffer.alloc(65_536, 'x')
const pieces = 64
const length = `Content-Length: ${piece.length * pieces}`
const chunk = `${piece.length.toString(16)}\r\n${piece}\r\n`

/** Requests that are rejected before their body has arrived. */
const refused: [status: number, what: string, head: string][] = [
  [413, 'a length beyond the limit', post('/things', length)],
  [413, 'chunks beyond the limit', post('/things', 'Transfer-Encoding: chunked') + chunk.repeat(17)],
  [404, 'an unknown path', post('/nothing', length)],
  [404, 'a request with Connection: close', post('/nothing', length, 'Connection: close')],
  [400, 'a malformed head', post('/things', length, 'X-A : b')],
  [417, 'an unknown expectation', post('/things', length, 'Expect: foo')],
  [501, 'a CONNECT request', lines('CONNECT a:1 HTTP/1.1', 'Host: a:1')],
]

/** Sends a body piece by piece; rejects if a piece cannot be written. */
async function sendAll(socket: Socket): Promise<void> {
  for (let sent = 0; sent < pieces; sent++) {
    await new Promise<void>((resolve, reject) => socket.write(piece, (error) => (error ? reject(error) : resolve())))
    await turn()
  }
}

for (const transport of ['plain HTTP behind a proxy', 'TLS']) {
  describe(`closing a connection after a response, over ${transport}`, () => {
    const timers = drivenTimers()
    const folder = mkdtempSync(join(tmpdir(), 'plinth-linger-'))
    let mounted: Mounted
    let reached: string[]
    /** The server-side socket of the connection. */
    let accepted: Socket
    before(async () => {
      const tls = transport === 'TLS' ? await localCertificates(folder, [], Date.now) : null
      mounted = await mount(['requestIntegrity', 'contentNegotiation', 'bodyParsing'], routes, {
        tls,
        later: timers.later,
      })
      await mounted.app.listen({ host: '127.0.0.1', port: 0 })
    })
    const routes = (app: Mounted['app']) => {
      const config = { scope: 'public' }
      app.post('/things', { config, schema: { body: Type.Object({}) } }, async () => reached.push('things'))
      app.get('/smuggled', { config }, async () => reached.push('smuggled'))
    }
    beforeEach(() => {
      reached = []
    })
    after(async () => {
      await mounted.app.close()
      rmSync(folder, { recursive: true })
    })

    const open = async () => {
      const { port } = mounted.app.server.address() as AddressInfo
      const to = { port, host: '127.0.0.1', rejectUnauthorized: false }
      const socket = transport === 'TLS' ? connectTls(to) : connect(to)
      await once(socket, transport === 'TLS' ? 'secureConnect' : 'connect')
      return socket
    }
    /** Sends a request head and waits until the service has sent the response, but does not read it. */
    const refuse = async (head: string) => {
      const connected = once(mounted.app.server, transport === 'TLS' ? 'secureConnection' : 'connection')
      const socket = await open()
      ;[accepted] = await connected
      socket.write(head)
      await until(() => accepted.writableFinished)
      return socket
    }

    for (const [status, what, head] of refused) {
      it(`delivers a ${status} for ${what}, even if the client sends a 4 MiB body before it reads`, async () => {
        const socket = await refuse(head)
        await sendAll(socket)
        const answer = await text(socket)
        assert.equal(answer.slice(9, 12), String(status))
        assert.ok(JSON.parse(answer.split('\r\n\r\n')[1] as string).errorCode)
        assert.match(answer, /\r\nconnection: close\r\n/i)
      })
    }

    it('does not handle a request sent after a rejected body', async () => {
      const socket = await refuse(post('/things', length))
      socket.end(Buffer.concat([...Array(pieces).fill(piece), Buffer.from(lines('GET /smuggled HTTP/1.1', secure))]))
      assert.equal((await text(socket)).match(/HTTP\/1\.1/g)?.length, 1)
      assert.deepEqual(reached, [])
    })

    it('after 64 MiB, disconnects a client that never stops sending', async () => {
      const socket = await refuse(post('/things', 'Content-Length: 1000000000'))
      socket.on('error', () => {})
      let mebibytes = 0
      const mebibyte = Buffer.alloc(1_048_576)
      while (!accepted.destroyed && mebibytes < 200) {
        await new Promise((resolve) => socket.write(mebibyte, resolve))
        mebibytes++
      }
      assert.ok(mebibytes >= 64 && mebibytes < 100, String(mebibytes))
      socket.destroy()
    })

    it('after 30 s, disconnects a client that keeps sending small amounts of data', async () => {
      const socket = await refuse(post('/things', length))
      let seconds = 0
      for (; !accepted.destroyed; seconds += 2) {
        const arrived = once(accepted, 'data')
        socket.write('x')
        await arrived
        timers.pass(2_000)
      }
      assert.equal(seconds, 30)
      assert.deepEqual(timers.pending(), [])
      socket.destroy()
    })

    it('after 2 s, disconnects a silent client', async () => {
      const socket = await refuse(post('/things', length))
      timers.pass(1_999)
      assert.equal(accepted.destroyed, false)
      timers.pass(1)
      assert.equal(accepted.destroyed, true)
      socket.destroy()
    })
  })
}

describe('the redirect listener', () => {
  for (const more of [[], ['Expect: foo']]) {
    it(`delivers a 301 to a request with ${more[0] ?? 'no Expect'}, even if the client sends a 4 MiB body before it reads`, async () => {
      const server = redirectServer({ baseUrl: 'https://plinth.test', later, onHealth: () => {} }).listen(
        0,
        '127.0.0.1',
      )
      await once(server, 'listening')
      const connected: Promise<Socket[]> = once(server, 'connection')
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
      const [accepted] = await connected
      socket.write(post('/things', length, ...more))
      await until(() => accepted?.writableFinished === true)
      await sendAll(socket)
      assert.match(await text(socket), /^HTTP\/1\.1 301 .*\r\nlocation: https:\/\/plinth\.test\/things\r\n/s)
      server.close()
    })
  }
})
