import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { connect, type SecureVersion } from 'node:tls'
import { serverOptions } from '../../src/http/server/server-options.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { localCertificates } from '../../src/tls/certificates.ts'
import { shareTicketKey } from '../../src/tls/session-tickets.ts'
import { baseUrl } from '../http/support.ts'
import { forEachEngine } from '../support/engines.ts'
import { later } from '../support/timers.ts'

const hourMs = 3_600_000

forEachEngine(({ database }) => {
  describe('two nodes with TLS session tickets', () => {
    const folder = mkdtempSync(join(tmpdir(), 'plinth-tickets-'))
    const seals = sealer(randomBytes(32), randomBytes)
    const clock = { now: Date.parse('2026-01-01T00:00:00Z') }
    const stops: (() => unknown)[] = []
    let db: Database

    before(async () => {
      db = await database()
    })
    after(async () => {
      for (const stop of stops) await stop()
      await db.close()
      rmSync(folder, { recursive: true })
    })

    /** Starts a node's HTTPS server with the options of the service. */
    async function node() {
      const errors = { baseUrl, isUnavailable: () => false, onFault: () => {}, now: Date.now }
      const tls = await localCertificates(folder, [], Date.now)
      const options = serverOptions({ ...errors, tls, trustedProxies: [], corsOrigins: [], later })
      assert.ok('https' in options)
      const server = createServer(options.https, (_request, response) => response.end('ok'))
      const shared = await shareTicketKey(server, {
        ...{ db, sealer: seals, random: randomBytes, now: () => clock.now },
        onError: (error) => assert.fail(String(error)),
      })
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      stops.push(() => server.close(), shared.stop)
      return { server, reload: shared.reload }
    }

    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      it(`resume a ${version} session that began on the other node`, async () => {
        const [one, other] = [await node(), await node()]
        const first = await handshake(one.server, version)
        assert.equal(first.isReused, false)
        assert.equal((await handshake(other.server, version, first.session)).isReused, true)
      })

      it(`do not resume a ${version} session on either node after 12 hours (T-HTTP-17)`, async () => {
        const [one, other] = [await node(), await node()]
        const first = await handshake(one.server, version)
        clock.now += 12 * hourMs
        await Promise.all([one.reload(), other.reload()])
        for (const { server } of [one, other])
          assert.equal((await handshake(server, version, first.session)).isReused, false)
        const second = await handshake(other.server, version)
        assert.equal((await handshake(one.server, version, second.session)).isReused, true)
      })
    }

    it('use one key for 12 hours, then replace it in the database', async () => {
      const { reload } = await node()
      const stored = () =>
        db.read.selectFrom('settings').selectAll().where('name', '=', 'tls-session-tickets').execute()
      const before = await stored()
      clock.now += 12 * hourMs - 1
      await reload()
      assert.deepEqual(await stored(), before)
      clock.now += 1
      await reload()
      const replaced = await stored()
      assert.equal(replaced.length, 1)
      assert.notDeepEqual(replaced, before)
    })
  })
})

/** Sends a request on a new connection. Returns whether the session was resumed, and a session to resume later. */
async function handshake(server: Server, version: SecureVersion, session?: Buffer) {
  const socket = connect({
    ...{ port: (server.address() as AddressInfo).port, host: '127.0.0.1', rejectUnauthorized: false },
    ...{ minVersion: version, maxVersion: version },
    ...(session && { session }),
  })
  const issued = once(socket, 'session', { signal: AbortSignal.timeout(10_000) }).catch(() => [undefined])
  await once(socket, 'secureConnect')
  const isReused = socket.isSessionReused()
  socket.end('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n').resume()
  await once(socket, 'close')
  const [last] = isReused ? [session] : await issued
  return { isReused, session: last as Buffer }
}
