import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { after, beforeEach, describe, it } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { cutStalled } from '../../src/http/server/write-stalls.ts'
import { localCertificates } from '../../src/tls/certificates.ts'
import { drivenTimers, until } from '../support/timers.ts'
import { type Mounted, mount } from './support.ts'

const large = Buffer.alloc(32_000_000, 'x')

for (const transport of ['plain HTTP behind a proxy', 'TLS']) {
  describe(`a response that the client does not read, over ${transport}`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'plinth-stalled-'))
    const sockets: Socket[] = []
    let timers: ReturnType<typeof drivenTimers>
    let mounted: Mounted
    let source: Readable
    /** The server-side TCP socket, below TLS. */
    let accepted: Socket
    beforeEach(async () => {
      timers = drivenTimers()
      const tls = transport === 'TLS' ? await localCertificates(folder, [], Date.now) : null
      mounted = await mount(['errorHandler'], routes, { tls, later: timers.later })
      cutStalled(mounted.app.server, { later: timers.later })
      mounted.app.server.on('connection', (socket) => {
        accepted = socket
      })
      await mounted.app.listen({ host: '127.0.0.1', port: 0 })
      const { app } = mounted
      closing.push(() => {
        app.server.closeAllConnections()
        return app.close()
      })
    })
    const closing: (() => unknown)[] = []
    after(async () => {
      for (const socket of sockets) socket.destroy()
      for (const close of closing) await close()
      rmSync(folder, { recursive: true })
    })
    const routes = (app: Mounted['app']) => {
      app.get('/buffer', async () => large)
      app.get('/stream', async (_request, reply) => {
        let pieces = 0
        source = new Readable({
          read() {
            this.push(pieces++ < 500 ? large.subarray(0, 65_536) : null)
          },
        })
        return reply.send(source)
      })
      app.get('/events', async (_request, reply) => {
        source = new PassThrough()
        ;(source as PassThrough).write(': here\n\n')
        return reply.header('content-type', 'text/event-stream').send(source)
      })
      app.get('/waits', () => new Promise(() => {}))
    }
    const ask = async (path: string): Promise<Socket> => {
      const { port } = mounted.app.server.address() as AddressInfo
      const to = { port, host: '127.0.0.1', rejectUnauthorized: false, highWaterMark: 65_536 }
      const socket = transport === 'TLS' ? connectTls(to) : connect(to)
      sockets.push(socket.on('error', () => {}))
      await once(socket, transport === 'TLS' ? 'secureConnect' : 'connect')
      socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\n\r\n`)
      return socket
    }
    const waitingBytes = () =>
      (accepted as Socket & { _handle?: { writeQueueSize: number } })._handle?.writeQueueSize ?? 0
    /** Resolves once the kernel accepts no more data from the response. */
    const isFull = async () => {
      let before = -1
      for (let same = 0; same < 50; ) {
        await new Promise(setImmediate)
        same = waitingBytes() > 0 && waitingBytes() === before ? same + 1 : 0
        before = waitingBytes()
      }
    }
    /** Advances the timers by several checks, during which no byte is accepted. */
    const pass = (seconds: number) => {
      for (let passed = 0; passed < seconds; passed += 5) timers.pass(5_000)
    }

    for (const path of ['/buffer', '/stream']) {
      it(`is aborted and its source is closed if the client accepts no data for 30 seconds (${path})`, async () => {
        const socket = await ask(path)
        socket.pause()
        await isFull()
        // The first check only records how many bytes have been accepted so far.
        pass(30)
        assert.equal(accepted.destroyed, false)
        pass(5)
        assert.equal(accepted.destroyed, true)
        if (path === '/stream') await until(() => source.destroyed)
        await until(() => timers.pending().length === 0)
      })

      it(`continues as long as the client accepts some data every 30 seconds (${path})`, async () => {
        const socket = await ask(path)
        socket.pause()
        await isFull()
        for (let round = 0; round < 4; round++) {
          pass(25)
          const before = waitingBytes() + accepted.bytesWritten
          let read = 0
          while (read < 4_000_000) {
            await until(() => socket.readableLength > 0)
            read += (socket.read() as Buffer | null)?.length ?? 0
          }
          await isFull()
          assert.notEqual(waitingBytes() + accepted.bytesWritten, before)
        }
        assert.equal(accepted.destroyed, false)
        pass(35)
        assert.equal(accepted.destroyed, true)
      })
    }

    for (const path of ['/events', '/waits']) {
      it(`does not count as stalled while it has nothing to send (${path})`, async () => {
        const socket = await ask(path)
        if (path === '/events') await once(socket, 'data')
        else await until(() => accepted.bytesRead > 0)
        pass(600)
        assert.equal(accepted.destroyed, false)
      })
    }
  })
}
