import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { after, before, describe, it } from 'node:test'
import { folderResults } from '../../src/files/folder.ts'
import type { ResultStore } from '../../src/files/store.ts'
import type { Database } from '../../src/storage/database.ts'
import { everyScope, type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { until } from '../support/timers.ts'

const perAccount = 10
/** More bytes than a connection's buffers can hold. */
const bytes = Buffer.alloc(32 * 1_024 * 1_024)

forEachEngine((engine) => {
  describe('downloads to slow clients', () => {
    let db: Database
    let test: TestApp
    let port: number
    let results: ResultStore
    let result: { sizeBytes: number; sha256: string }
    let opening = (): Promise<void> => Promise.resolve()
    const folder = mkdtempSync(join(tmpdir(), 'plinth-downloads-'))
    const streams: Readable[] = []
    const sockets = new Set<Socket>()
    const serverSockets = new Set<Socket>()

    before(async () => {
      db = await engine.database()
      const files = folderResults(folder)
      const open: ResultStore['open'] = async (...given) => {
        await opening()
        const stream = await files.open(...given)
        streams.push(stream)
        return stream
      }
      results = { ...files, open }
      test = await testApp(db, { prefixes: [''], results })
      await test.app.listen({ host: '127.0.0.1', port: 0 })
      port = (test.app.server.address() as AddressInfo).port
      test.app.server.on('connection', (socket) => {
        serverSockets.add(socket)
        socket.on('close', () => serverSockets.delete(socket))
      })
      const writer = await results.create('large')
      await writer.write(bytes)
      result = await writer.finish()
    })
    after(async () => {
      for (const socket of sockets) socket.destroy()
      const faults = [...test.faults]
      await test.app.close()
      await db.close()
      rmSync(folder, { recursive: true, force: true })
      assert.deepEqual(faults, [])
    })

    const completed = async (clientId: string, subject = clientId): Promise<string> => {
      const payload = { reportType: 'books', format: 'csv' }
      const as = token(everyScope, clientId, subject)
      const id = (await test.send({ method: 'POST', url: '/api/reports', payload, token: as })).json().taskId
      const completedAt = '2026-03-01T12:00:00.000Z'
      const ending = { status: 'completed' as const, completedAt, expiresAt: '2026-03-08T12:00:00.000Z' }
      const values = { ...ending, resultKey: 'large', ...result }
      await db.write((tx) => tx.updateTable('tasks').set(values).where('id', '=', id).execute())
      return id
    }
    /** Sends a request and reads only the response head. */
    async function download(id: string, clientId: string, { subject = clientId, method = 'GET' } = {}) {
      const socket = connect(port, '127.0.0.1')
      sockets.add(socket)
      socket.on('error', () => {})
      const bearer = `authorization: Bearer ${token(everyScope, clientId, subject)}`
      const lines = ['host: plinth.test', 'x-forwarded-proto: https', bearer]
      socket.write(`${method} /api/reports/${id}/download HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
      await once(socket, 'readable')
      const head = String(socket.read())
      return { socket, head, status: Number(head.slice(9, 12)) }
    }
    const open = () => streams.filter(({ closed }) => !closed).length
    /** Counts this process's open file descriptors of the result. */
    const descriptors = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`).startsWith(folder)
        } catch {
          return false
        }
      }).length

    it('429 with Retry-After for an account’s eleventh concurrent download; 200 for other accounts, and once a download is closed', async () => {
      const id = await completed('cli_many')
      const stalled = []
      for (let n = 0; n < perAccount; n++) stalled.push(await download(id, 'cli_many'))
      assert.deepEqual([...new Set(stalled.map(({ status }) => status))], [200])
      assert.equal(open(), perAccount)

      const { head, status } = await download(id, 'cli_many')
      assert.equal(status, 429)
      assert.match(head, /^retry-after: \d+\r$/im)
      assert.match(
        head,
        /\{"error":"10 of your downloads are already open, the maximum: close one or try again later"\}/,
      )
      for (const name of ['content-disposition', 'repr-digest', 'accept-ranges']) assert.ok(!head.includes(name), name)
      assert.equal(
        (await download(await completed('cli_many', 'another'), 'cli_many', { subject: 'another' })).status,
        200,
      )
      assert.equal((await download(await completed('cli_second'), 'cli_second')).status, 200)
      assert.equal((await download(id, 'cli_many', { method: 'HEAD' })).status, 200)
      assert.equal(open(), perAccount + 2)

      stalled[0]?.socket.destroy()
      await until(() => open() === perAccount + 1)
      assert.equal((await download(id, 'cli_many')).status, 200)
      for (const socket of sockets) socket.destroy()
      await until(() => open() === 0 && descriptors() === 0)
    })

    it('no longer count toward the limit once they have been read completely', async () => {
      const id = await completed('cli_reader')
      const as = token(everyScope, 'cli_reader')
      for (let n = 0; n < perAccount + 1; n++) {
        const headers = { range: 'bytes=0-9' }
        const response = await test.send({ url: `/api/reports/${id}/download`, token: as, headers })
        assert.equal(response.statusCode, 206)
      }
      await until(() => open() === 0)
    })

    it('close a file that is opened only after the client has disconnected', async () => {
      const id = await completed('cli_gone')
      const gate = Promise.withResolvers<void>()
      let isOpening = false
      opening = () => {
        isOpening = true
        return gate.promise
      }
      const socket = connect(port, '127.0.0.1')
      const bearer = `authorization: Bearer ${token(everyScope, 'cli_gone')}`
      const lines = ['host: plinth.test', 'x-forwarded-proto: https', bearer]
      socket.write(`GET /api/reports/${id}/download HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
      await until(() => isOpening)
      socket.destroy()
      await until(() => serverSockets.size === 0)
      const before = streams.length
      opening = () => Promise.resolve()
      gate.resolve()
      await until(() => streams.length > before && open() === 0)
      await until(() => descriptors() === 0)
    })
  })
})
