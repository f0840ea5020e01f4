import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { maxWaiters, pollEveryMs } from '../../src/reports/wait-for-change.ts'
import type { Database } from '../../src/storage/database.ts'
import { everyScope, type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { drivenTimers, until } from '../support/timers.ts'

const perAccount = 20

forEachEngine((engine) => {
  describe('requests that wait for a task', () => {
    let db: Database
    let test: TestApp
    let port: number
    const timers = drivenTimers()
    const sockets = new Set<Socket>()

    before(async () => {
      db = await engine.database()
      test = await testApp(db, { prefixes: [''], later: timers.later })
      await test.app.listen({ host: '127.0.0.1', port: 0 })
      port = (test.app.server.address() as AddressInfo).port
    })
    after(async () => {
      for (const socket of sockets) socket.destroy()
      await test.app.close()
      await db.close()
    })

    const created = async (clientId: string, subject = clientId): Promise<string> => {
      const payload = { reportType: 'books', format: 'csv' }
      const as = token(everyScope, clientId, subject)
      return (await test.send({ method: 'POST', url: '/api/reports', payload, token: as })).json().taskId
    }
    const headOf = (id: string, clientId: string, subject = clientId) => {
      const lines = ['host: plinth.test', 'x-forwarded-proto: https']
      const bearer = `authorization: Bearer ${token(everyScope, clientId, subject)}`
      return `GET /api/reports/${id}/events HTTP/1.1\r\n${[...lines, bearer].join('\r\n')}\r\n\r\n`
    }
    /** Opens a connection, and collects what it receives. */
    async function connection() {
      const socket = connect(port, '127.0.0.1')
      sockets.add(socket)
      const received = { text: '', isClosed: false }
      socket.on('data', (chunk) => (received.text += chunk))
      socket.on('close', () => (received.isClosed = true))
      await once(socket, 'connect')
      return { socket, received }
    }
    /** Opens an event stream; resolves when its first event or an error has arrived. */
    async function listen(id: string, clientId: string, subject = clientId) {
      const opened = await connection()
      opened.socket.write(headOf(id, clientId, subject))
      await until(() => /\nid: |\r\n\r\n\{/.test(opened.received.text))
      return { ...opened, status: Number(opened.received.text.slice(9, 12)) }
    }
    const wait = (id: string, clientId: string, seconds = 30) =>
      test.send({
        url: `/api/reports/${id}`,
        headers: { prefer: `wait=${seconds}` },
        token: token(everyScope, clientId),
      })
    /** Returns the number of requests that wait with a timeout of `ms`. */
    const waiting = (ms: number) => timers.pending().filter((pending) => pending === ms).length

    it('429 with Retry-After for an account’s 21st event stream, without ending other streams', async () => {
      const id = await created('cli_many')
      const streams = []
      for (let n = 0; n < perAccount; n++) streams.push(await listen(id, 'cli_many'))
      assert.deepEqual([...new Set(streams.map(({ status }) => status))], [200])

      const { status, received } = await listen(id, 'cli_many')
      assert.equal(status, 429)
      assert.match(received.text, /^retry-after: \d+\r$/im)
      assert.match(received.text, /^content-type: application\/json/im)
      assert.match(
        received.text,
        /\{"error":"20 of your event streams and waiting requests are already open, the maximum: close one or try again later"\}/,
      )
      assert.equal((await listen(await created('cli_many', 'another'), 'cli_many', 'another')).status, 200)
      assert.equal((await listen(await created('cli_second'), 'cli_second')).status, 200)
      assert.ok(streams.every((stream) => !stream.received.isClosed))

      streams[0]?.socket.destroy()
      await until(() => waiting(15_000) === perAccount + 1)
      assert.equal((await listen(id, 'cli_many')).status, 200)
      for (const socket of sockets) socket.destroy()
      await until(() => waiting(15_000) === 0)
    })

    it('200 at once, ignoring Prefer: wait, while 20 requests of the account are waiting', async () => {
      const id = await created('cli_waiting')
      const responses = Array.from({ length: perAccount }, () => wait(id, 'cli_waiting'))
      await until(() => waiting(30_000) === perAccount)
      const beyond = await wait(id, 'cli_waiting')
      assert.deepEqual([beyond.statusCode, beyond.headers['preference-applied']], [200, undefined])
      assert.ok(Number(beyond.headers['retry-after']) >= 1)
      assert.equal((await listen(id, 'cli_waiting')).status, 429)

      const other = wait(await created('cli_patient'), 'cli_patient', 29)
      await until(() => waiting(29_000) === 1)
      timers.pass(30_000)
      for (const response of await Promise.all([...responses, other])) {
        assert.match(String(response.headers['preference-applied']), /^wait=/)
      }
      const again = wait(id, 'cli_waiting')
      await until(() => waiting(30_000) === 1)
      timers.pass(30_000)
      assert.equal((await again).headers['preference-applied'], 'wait=30')
    })

    it('no longer count toward the limit once their connection closes, even if they were pipelined', async () => {
      const id = await created('cli_pipelined')
      const { socket, received } = await connection()
      socket.write(headOf(id, 'cli_pipelined').repeat(perAccount))
      await until(() => received.text.includes('\nid: '))
      await until(() => waiting(15_000) >= 1)
      while ((await listen(id, 'cli_pipelined')).status !== 429);
      socket.destroy()
      await until(() => received.isClosed)
      let status = 429
      while (status === 429) status = (await listen(id, 'cli_pipelined')).status
      for (const one of sockets) one.destroy()
      await until(() => waiting(15_000) === 0)
    })

    it(`503 with Retry-After for another event stream while ${maxWaiters} requests wait, without ending a wait`, async () => {
      const responses: Promise<unknown>[] = []
      let ended = 0
      const watched = []
      for (let client = 0; client < maxWaiters / perAccount; client++) {
        const id = await created(`cli_${client}`)
        if (client < 2) watched.push(await listen(id, `cli_${client}`))
        const rest = client < 2 ? perAccount - 1 : perAccount
        for (let n = 0; n < rest; n++) responses.push(wait(id, `cli_${client}`).then(() => ended++))
      }
      await until(() => waiting(30_000) === maxWaiters - 2)
      const id = await created('cli_newcomer')
      const { status, received } = await listen(id, 'cli_newcomer')
      assert.equal(status, 503)
      assert.match(received.text, /^retry-after: \d+\r$/im)
      assert.match(received.text, /"errorCode":"SERVICE_UNAVAILABLE"/)
      assert.equal((await wait(id, 'cli_newcomer')).headers['preference-applied'], undefined)
      timers.pass(pollEveryMs)
      assert.equal(ended, 0)
      assert.ok(watched.every((stream) => !stream.received.isClosed))
      timers.pass(30_000)
      await Promise.all(responses)
    })
  })
})
