import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import {
  type AddressInfo,
  connect,
  createServer as createNetServer,
  type Server as NetServer,
  type Socket,
} from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, afterEach, beforeEach, describe, it } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { Problem } from '../../src/http/problems/problem.ts'
import { type Drain, drainable } from '../../src/http/server/draining.ts'
import { type Exclusively, isInUse, stopListening } from '../../src/http/server/stop-listening.ts'
import { freePort } from '../../src/serving/listeners.ts'
import { localCertificates } from '../../src/tls/certificates.ts'
import { drivenTimers, until } from '../support/timers.ts'
import { type Mounted, mount } from './support.ts'

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\n\r\n`
const config = { scope: 'public' }

for (const transport of ['plain HTTP behind a proxy', 'TLS']) {
  describe(`a server that is shutting down, over ${transport}`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'plinth-draining-'))
    let timers: ReturnType<typeof drivenTimers>
    let mounted: Mounted
    let drain: Drain
    let port: number
    let held: (() => void)[]
    let reached: string[]
    /** The server-side sockets of the connections. */
    let accepted: Socket[]
    let sockets: Socket[]
    beforeEach(async () => {
      timers = drivenTimers()
      ;[held, reached, accepted, sockets] = [[], [], [], []]
      const tls = transport === 'TLS' ? await localCertificates(folder, [], Date.now) : null
      mounted = await mount(['errorHandler', 'https'], routes, { tls, later: timers.later })
      drain = drainable(mounted.app.server, { later: timers.later, exclusively: null })
      const event = transport === 'TLS' ? 'secureConnection' : 'connection'
      mounted.app.server.on(event, (socket) => accepted.push(socket))
      await mounted.app.listen({ host: '127.0.0.1', port: 0 })
      port = (mounted.app.server.address() as AddressInfo).port
    })
    afterEach(async () => {
      drain.cut()
      for (const socket of sockets) socket.destroy()
      await mounted.app.close()
    })
    after(() => rmSync(folder, { recursive: true }))
    const routes = (app: Mounted['app']) => {
      app.get('/things', { config }, async ({ url }) => {
        reached.push(url)
        return { name: 'Pen' }
      })
      app.get('/refused', { config }, async () => {
        throw new Problem('INVALID_INPUT', 'No')
      })
      app.get('/held', { config }, ({ url }) => {
        reached.push(url)
        return new Promise<object>((resolve) => held.push(() => resolve({ name: 'Held' })))
      })
    }
    const open = async (): Promise<Socket> => {
      const before = accepted.length
      const to = { port, host: '127.0.0.1', rejectUnauthorized: false }
      const socket = transport === 'TLS' ? connectTls(to) : connect(to)
      sockets.push(socket)
      await once(socket, transport === 'TLS' ? 'secureConnect' : 'connect')
      await until(() => accepted.length > before)
      return socket
    }
    /** Sends a request and reads its response, which is small enough to arrive in one chunk. */
    const ask = async (socket: Socket, path = '/things'): Promise<string> => {
      socket.write(get(path))
      return String((await once(socket, 'data'))[0])
    }
    const statuses = (answers: string) => [...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status))

    it('sends a last response on each connection, then closes the connection without a reset', async () => {
      const [kept, fresh] = [await open(), await open()]
      assert.match(await ask(kept), /\r\nConnection: keep-alive\r\n/i)
      drain.begin()
      for (const socket of [kept, fresh, await open()]) {
        const ended = once(socket, 'end')
        const answer = await ask(socket)
        assert.deepEqual(statuses(answer), [200])
        assert.match(answer, /\r\nConnection: close\r\n/i)
        await ended
      }
    })

    it('sends Connection: close in error responses too', async () => {
      const socket = await open()
      drain.begin()
      const answer = await ask(socket, '/refused')
      assert.deepEqual(statuses(answer), [400])
      assert.match(answer, /\r\nConnection: close\r\n/i)
    })

    it('does not handle data sent after the last response, and does not reset the connection', async () => {
      const socket = await open()
      drain.begin()
      socket.pause()
      socket.write(get('/things?first'))
      await until(() => accepted[0]?.writableFinished === true)
      socket.write(get('/things?second'))
      const answers = await text(socket)
      assert.deepEqual(statuses(answers), [200])
      assert.deepEqual(reached, ['/things?first'])
    })

    it('responds to all pipelined requests, with Connection: close only in the last response', async () => {
      const socket = await open()
      drain.begin()
      socket.write(get('/held') + get('/things') + get('/held'))
      await until(() => held.length === 2)
      for (const goOn of held) goOn()
      const answers = await text(socket)
      assert.deepEqual(statuses(answers), [200, 200, 200])
      assert.equal(answers.match(/Connection: close/gi)?.length, 1)
      assert.match(answers, /Connection: close.*Held"\}$/is)
      assert.deepEqual(reached, ['/held', '/things', '/held'])
    })

    it('stops listening on finish(), but responds to a request in flight before it closes the connection', async () => {
      const socket = await open()
      socket.write(get('/held'))
      await until(() => held.length === 1)
      drain.begin()
      await drain.finish()
      await assert.rejects(open(), { code: 'ECONNREFUSED' })
      const answer = text(socket)
      timers.pass(5_000)
      held[0]?.()
      await until(() => accepted[0]?.writableFinished === true || accepted[0]?.destroyed === true || look())
      assert.deepEqual(statuses(await answer), [200])
    })
    /** Makes the server check for idle connections. */
    const look = () => {
      timers.pass(50)
      return false
    }

    it('responds to the requests on all connections made before the listener closed', async () => {
      const to = { port, host: '127.0.0.1', rejectUnauthorized: false }
      drain.begin()
      // All connections are opened at once, before the event loop can accept the first.
      const answers = Array.from({ length: 20 }, () => {
        const socket = transport === 'TLS' ? connectTls(to) : connect(to)
        sockets.push(socket)
        socket.write(get('/things'))
        return text(socket)
      })
      // The sockets start to connect in the next tick.
      await new Promise<void>((resolve) => process.nextTick(resolve))
      await drain.finish()
      const all = await Promise.all(answers)
      assert.deepEqual(all.flatMap(statuses), Array(20).fill(200))
    })

    it('closes an idle connection gracefully, without a reset if data arrives afterwards', async () => {
      const socket = await open()
      await ask(socket)
      drain.begin()
      socket.pause()
      await drain.finish()
      await until(() => accepted[0]?.writableFinished === true)
      socket.write(get('/things?late'))
      assert.equal(await text(socket), '')
      assert.deepEqual(reached, ['/things'])
    })

    it('closes a connection on which no byte arrives within one second', async () => {
      const [used, unused] = [await open(), await open()]
      drain.begin()
      await drain.finish()
      timers.pass(900)
      const answer = await ask(used)
      assert.deepEqual(statuses(answer), [200])
      const ended = once(unused.resume(), 'end')
      await until(() => accepted[1]?.writableFinished === true || look())
      await ended
    })

    it('responds to a request that had only partly arrived when the shutdown began', async () => {
      const socket = await open()
      await ask(socket)
      const before = accepted[0]?.bytesRead ?? 0
      socket.write('GET /things?slow HTTP/1.1\r\nHost: a\r\n')
      await until(() => (accepted[0]?.bytesRead ?? 0) > before)
      drain.begin()
      await drain.finish()
      timers.pass(2_000)
      socket.write('X-Forwarded-Proto: https\r\n\r\n')
      assert.deepEqual(statuses(await text(socket)), [200])
    })

    it('destroys the remaining connections on cut()', async () => {
      const socket = await open()
      socket.write(get('/held'))
      await until(() => held.length === 1)
      drain.begin()
      await drain.finish()
      drain.cut()
      await until(() => accepted[0]?.destroyed === true)
      await mounted.app.close()
      assert.deepEqual(timers.pending(), [])
    })
  })
}

describe('several listeners on one port that stop at the same time', () => {
  it('respond to the requests on all connections made before the last of them closed', async () => {
    const timers = drivenTimers()
    let last = Promise.resolve()
    const exclusively: Exclusively = (run) => (last = last.then(run))
    const servers = Array.from({ length: 3 }, () => createServer((_request, response) => response.end('ok')))
    const drains = servers.map((server) => drainable(server, { later: timers.later, exclusively }))
    const port = await freePort()
    for (const server of servers) await once(server.listen({ port, host: '127.0.0.1', reusePort: true }), 'listening')
    for (const { begin } of drains) begin()
    // All connections are opened at once, before the event loop can accept the first.
    const answers = Array.from({ length: 300 }, () => {
      const socket = connect(port, '127.0.0.1')
      socket.write(get('/'))
      return text(socket)
    })
    await new Promise<void>((resolve) => process.nextTick(resolve))
    await Promise.all(drains.map(({ finish }) => finish()))
    const settled = await Promise.allSettled(answers)
    const statuses = settled.map((answer) =>
      answer.status === 'fulfilled' ? answer.value.slice(0, 12) : answer.reason,
    )
    assert.deepEqual(statuses, Array(300).fill('HTTP/1.1 200'))
    await assert.rejects(once(connect(port, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' })
  })
})

describe('a listener among several', () => {
  it('closes at once if other processes take client ports from which it has connected to itself', async (t) => {
    /** Stops a listener while two of its client ports are taken; returns how many were taken before it had stopped. */
    const stopWithTakenPorts = async (): Promise<number> => {
      const takers: NetServer[] = []
      t.after(() => takers.map((taker) => taker.close()))
      let [accepted, isStopped] = [0, false]
      const take = (port: number | undefined) => void (isStopped || takers.push(createNetServer().listen(port)))
      const server = createServer().on('connection', (socket) => {
        const { remotePort } = socket
        if (++accepted <= 2) socket.once('close', () => take(remotePort))
      })
      await once(server.listen({ port: 0, host: '127.0.0.1', reusePort: true }), 'listening')
      await stopListening(server, (run) => run())
      isStopped = true
      assert.ok(accepted < 100, `accepted ${accepted} connections`)
      return takers.filter(({ listening }) => listening).length
    }
    // The listener may stop before the kernel has reset the connections whose ports are taken.
    while ((await stopWithTakenPorts()) === 0);
  })
})

describe('isInUse', () => {
  const table = [
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode',
    '   0: 0100007F:20FB 00000000:0000 0A 00000000:00000004 00:00000000 00000000   101        0 4711 1 00000000aaf3937e 100 0',
    '   1: 0100007F:20FB 00000000:0000 0A 00000000:00000005 00:00000000 00000000   101        0 4712 1 00000000aaf3937e 100 0',
    '   2: 0100007F:20FB 0100007F:D4B2 01 00000000:00000000 00:00000000 00000000   101        0 4713 1 0000000000000000 100 0',
    '   3: 0100007F:1F90 0100007F:20FB 03 00000000:00000000 01:00000063 00000000   101        0 0 1 0000000000000000',
    '   0: 00000000000000000000000001000000:01BB 00000000000000000000000001000000:C001 03 00000000:00000000',
  ].join('\n')

  it('is true if a connection to the local port is in the state SYN_RECV, over IPv4 or IPv6', () => {
    assert.equal(isInUse(table, 0x1f90, '1'), true)
    assert.equal(isInUse(table, 443, '1'), true)
  })

  it('is true if more connections wait in the accept queue of the listener than fill it', () => {
    assert.equal(isInUse(table, 0x20fb, '4712'), true)
  })

  it('ignores other listeners on the port, open connections, and handshakes with the same remote port', () => {
    assert.equal(isInUse(table, 0x20fb, '4711'), false)
    assert.equal(isInUse('', 443, undefined), false)
  })
})
