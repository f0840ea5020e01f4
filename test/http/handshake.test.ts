import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { serverOptions } from '../../src/http/server/server-options.ts'
import { localCertificates } from '../../src/tls/certificates.ts'
import { later } from '../support/timers.ts'
import { baseUrl, type Mounted, mount } from './support.ts'

describe('an HTTPS connection on which the client sends no request', () => {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-handshake-'))
  let mounted: Mounted
  before(async () => {
    const timeouts = { handshakeTimeout: 300, headersTimeout: 300, connectionsCheckingInterval: 50 }
    const tls = await localCertificates(folder, [], Date.now)
    mounted = await mount(['errorHandler', 'https'], () => {}, { tls, timeouts })
    await mounted.app.listen({ host: '127.0.0.1', port: 0 })
  })
  after(async () => {
    await mounted.app.close()
    rmSync(folder, { recursive: true })
  })
  const port = () => (mounted.app.server.address() as AddressInfo).port

  for (const [what, bytes] of [
    ['no bytes', ''],
    ['only the beginning of a handshake', '\x16\x03\x01\x02\x00\x01'],
  ]) {
    it(`is closed without a response if the client sends ${what}`, async () => {
      const socket = connect(port(), '127.0.0.1')
      await once(socket, 'connect')
      socket.write(Buffer.from(bytes as string, 'latin1'))
      assert.equal((await buffer(socket)).length, 0)
    })
  }

  it('has default timeouts of ten seconds for the handshake and for the request head', () => {
    const errors = { baseUrl, isUnavailable: () => false, onFault: () => {}, now: Date.now }
    const options = serverOptions({ ...errors, tls: {}, trustedProxies: [], corsOrigins: [], later })
    assert.ok('https' in options)
    assert.deepEqual([options.https.handshakeTimeout, options.https.headersTimeout], [10_000, 10_000])
  })

  it('receives 408 and is closed if the handshake was completed', async () => {
    const socket = connectTls({ port: port(), host: '127.0.0.1', rejectUnauthorized: false })
    await once(socket, 'secureConnect')
    assert.match((await buffer(socket)).toString(), /^HTTP\/1\.1 408 /)
  })
})
