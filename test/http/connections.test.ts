import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer as createPlainServer, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { type ConnectionLimits, connectionLimits, type Refusals } from '../../src/http/server/connections.ts'
import { localCertificates } from '../../src/tls/certificates.ts'
import { drivenTimers, until } from '../support/timers.ts'

describe('connection limits', () => {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-connections-'))
  const closing: (() => unknown)[] = []
  let certificates: Awaited<ReturnType<typeof localCertificates>>
  before(async () => {
    certificates = await localCertificates(folder, [], Date.now)
  })
  after(() => {
    for (const close of closing) close()
    rmSync(folder, { recursive: true })
  })

  const bounded = (more: Partial<ConnectionLimits>) => {
    const reports: Refusals[] = []
    const timers = drivenTimers()
    const onRefused = (refusals: Refusals) => reports.push(refusals)
    const usual = { maxConnections: 100, maxPerAddress: 2, trustedProxies: [], later: timers.later }
    return { bound: connectionLimits({ ...usual, onRefused, ...more }), reports, timers }
  }
  const listening = async (server: Server, host = '127.0.0.1') => {
    await once(server.listen(0, host), 'listening')
    closing.push(
      () => server.close(),
      () => server.closeAllConnections(),
    )
    return (server.address() as AddressInfo).port
  }
  const open = async (port: number, host = '127.0.0.1'): Promise<Socket> => {
    const socket = connect(port, host).on('error', () => {})
    closing.push(() => socket.destroy())
    await once(socket, 'connect')
    return socket
  }
  /** Returns true if the server responds on a new connection, false if it closes the connection without a response. */
  const isTaken = async (port: number, host?: string, localAddress?: string): Promise<boolean> => {
    const socket = connect({ port, host: host ?? '127.0.0.1', ...(localAddress && { localAddress }) })
    closing.push(() => socket.destroy())
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    return new Promise((resolve) => {
      socket.once('data', () => resolve(true)).once('error', () => resolve(false))
      socket.once('close', () => resolve(false))
    })
  }
  const answering = () => createPlainServer((_request, response) => response.end('here'))

  it('refuse connections above the limit per address until one is closed, but none from other addresses', async () => {
    const server = answering()
    const { bound, reports } = bounded({})
    bound(server)
    const port = await listening(server)
    const accepted = once(server, 'connection')
    const first = await open(port)
    await accepted
    assert.equal(await isTaken(port), true)
    assert.equal(await isTaken(port), false)
    assert.deepEqual(reports, [{ refused: 1, network: '127.0.0.1', bound: 'address' }])
    assert.equal(await isTaken(port, '127.0.0.1', '127.0.0.2'), true)
    const [seen] = await accepted
    first.destroy()
    await until(() => (seen as Socket).destroyed)
    await once(seen as Socket, 'close').catch(() => {})
    assert.equal(await isTaken(port), true)
  })

  it('apply to each IPv6 /64 network as a whole, and report the network instead of the address', async () => {
    const server = answering()
    const { bound, reports } = bounded({ maxPerAddress: 1 })
    bound(server)
    // IPv6 has only one loopback address, so each connection gets a remote address from this list.
    const addresses = ['2001:db8:1:2::1', '2001:db8:1:2:ffff::9', '2001:db8:1:3::1']
    server.prependListener('connection', (socket: Socket) => {
      Object.defineProperty(socket, 'remoteAddress', { value: addresses.shift() })
    })
    const port = await listening(server)
    for (const taken of [true, false, true]) assert.equal(await isTaken(port), taken)
    assert.deepEqual(reports, [{ refused: 1, network: '2001:db8:1:2::/64', bound: 'address' }])
  })

  it('apply to connections over IPv6', async () => {
    const server = answering()
    const { bound, reports } = bounded({ maxPerAddress: 1 })
    bound(server)
    const port = await listening(server, '::1')
    assert.equal(await isTaken(port, '::1'), true)
    assert.equal(await isTaken(port, '::1'), false)
    assert.equal(reports[0]?.network, '0:0:0:0::/64')
  })

  it('apply to connections from a trusted proxy only in total, not per address', async () => {
    const server = answering()
    const { bound, reports } = bounded({ maxConnections: 3, maxPerAddress: 1, trustedProxies: ['127.0.0.0/8'] })
    bound(server)
    const port = await listening(server)
    for (const taken of [true, true, true, false]) assert.equal(await isTaken(port), taken)
    assert.deepEqual(reports, [{ refused: 1, network: '127.0.0.1', bound: 'process' }])
  })

  it('apply to all servers together, and refuse connections before the TLS handshake', async () => {
    const secure = createSecureServer(certificates, (_request, response) => response.end())
    const plain = answering()
    const { bound, reports } = bounded({})
    let handshakes = 0
    secure.on('secureConnection', () => handshakes++).on('tlsClientError', () => handshakes++)
    for (const server of [secure, plain]) bound(server)
    const [securePort, plainPort] = [await listening(secure), await listening(plain)]
    const socket = connectTls({ port: securePort, host: '127.0.0.1', rejectUnauthorized: false })
    closing.push(() => socket.destroy())
    await once(socket, 'secureConnect')
    await until(() => handshakes === 1)
    assert.equal(await isTaken(plainPort), true)
    const refused = connectTls({ port: securePort, host: '127.0.0.1', rejectUnauthorized: false })
    const [error] = await once(refused, 'error')
    assert.equal(error.code, 'ECONNRESET')
    assert.deepEqual([handshakes, reports.length], [1, 1])
    assert.equal(await isTaken(plainPort), false)
  })

  it('report the first refused connection at once, then the number of others at most every ten seconds', async () => {
    const server = answering()
    const { bound, reports, timers } = bounded({ maxConnections: 1 })
    bound(server)
    const port = await listening(server)
    assert.equal(await isTaken(port), true)
    for (let call = 0; call < 5; call++) assert.equal(await isTaken(port), false)
    assert.deepEqual(
      reports.map(({ refused }) => refused),
      [1],
    )
    timers.pass(9_999)
    assert.equal(reports.length, 1)
    timers.pass(1)
    assert.deepEqual(
      reports.map(({ refused }) => refused),
      [1, 4],
    )
    timers.pass(20_000)
    assert.deepEqual([reports.length, timers.pending().length], [2, 0])
    assert.equal(await isTaken(port), false)
    assert.deepEqual(
      reports.map(({ refused }) => refused),
      [1, 4, 1],
    )
  })
})
