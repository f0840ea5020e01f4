// Runs in its own process: sets environment variables.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { after, afterEach, before, describe, it } from 'node:test'
import { s3Results } from '../../src/files/s3.ts'
import { s3Limits } from '../../src/files/s3-client.ts'
import { maxDownloadsInAll, type ResultStore, ResultsUnavailable } from '../../src/files/store.ts'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'
import { s3Missing, s3Server } from '../support/s3.ts'
import { until } from '../support/timers.ts'

const url = new URL('s3://bucket/reports')
/** Shorten only `silentMs`: connecting may take a while, because loading the client keeps this process busy. */
const limits = { ...s3Limits, connectMs: 3_000, silentMs: 200 }
const environment = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret', AWS_REGION: 'us-east-1' }

/** Starts a store that accepts connections, sends `sent` on each after the first data, and then sends nothing more. */
async function silentStore(sent = '') {
  const sockets = new Set<Socket>()
  let accepted = 0
  const server: Server = createServer((socket) => {
    accepted++
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    if (sent !== '') socket.once('data', () => socket.write(sent))
    socket.resume()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  Object.assign(process.env, environment, { AWS_ENDPOINT_URL: `http://127.0.0.1:${port}` })
  return {
    connections: () => sockets.size,
    accepted: () => accepted,
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

describe('the S3 limits', () => {
  it('are 3 s to connect, 10 s without data, and 32 connections in addition to those for downloads', () => {
    const expected = { connectMs: 3_000, silentMs: 10_000, requestSockets: 32, downloadSockets: maxDownloadsInAll }
    assert.deepEqual(s3Limits, expected)
  })
})

describe('an unresponsive S3 store', () => {
  let store: Awaited<ReturnType<typeof silentStore>>
  afterEach(() => store.close())

  const operations: [name: string, run: (results: ResultStore) => Promise<unknown>][] = [
    ['open', (results) => results.open('key')],
    ['remove', (results) => results.remove('key')],
    ['abandon', (results) => results.abandon('key')],
    ['sweepTemporary', (results) => results.sweepTemporary()],
  ]
  for (const [name, run] of operations) {
    it(`makes ${name} fail with ResultsUnavailable after connecting; no connection stays open`, async () => {
      store = await silentStore()
      await assert.rejects(run(s3Results(url, limits)), ResultsUnavailable)
      // On a busy machine, the timeout can expire before this process has accepted the connection.
      await until(() => store.accepted() > 0)
      await until(() => store.connections() === 0)
    })
  }

  it('makes an upload fail', async () => {
    store = await silentStore()
    const writer = await s3Results(url, limits).create('key')
    await writer.write('some bytes')
    await assert.rejects(writer.finish(), ResultsUnavailable)
  })

  it('is reported as unavailable if it refuses connections', async () => {
    store = await silentStore()
    store.close()
    await assert.rejects(s3Results(url, limits).open('key'), ResultsUnavailable)
  })

  it('is reported as unavailable if it responds with 503', async () => {
    store = await silentStore('HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n')
    await assert.rejects(s3Results(url, limits).open('key'), ResultsUnavailable)
  })

  it('makes a stalled download fail, and closes the connection', async () => {
    store = await silentStore('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nfirst')
    const content = await s3Results(url, limits).open('key')
    const read: unknown[] = []
    await assert.rejects(async () => {
      for await (const chunk of content) read.push(String(chunk))
    }, ResultsUnavailable)
    assert.deepEqual(read, ['first'])
    await until(() => store.connections() === 0)
  })

  it('is disconnected if opening a result is aborted or the reader stops', async () => {
    store = await silentStore()
    const gone = new AbortController()
    const opening = s3Results(url, { ...limits, silentMs: 600_000 }).open('key', undefined, gone.signal)
    await until(() => store.connections() === 1)
    gone.abort()
    await assert.rejects(opening)
    await until(() => store.connections() === 0)
    store.close()
    store = await silentStore('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nfirst')
    const content = await s3Results(url, { ...limits, silentMs: 600_000 }).open('key')
    content.destroy()
    await until(() => store.connections() === 0)
  })
})

onSqlite((engine) => {
  describe('a request for a result in an unresponsive store', () => {
    let db: Database
    let test: TestApp
    let store: Awaited<ReturnType<typeof silentStore>>
    before(async () => {
      store = await silentStore()
      db = await engine.database()
      test = await testApp(db, { prefixes: [''], results: s3Results(url, limits) })
    })
    after(async () => {
      await test.app.close()
      await db.close()
      store.close()
    })

    for (const [method, part] of [
      ['GET', '/download'],
      ['DELETE', ''],
    ] as const) {
      it(`503 with Retry-After for ${method} /api/reports/{id}${part}`, async () => {
        const payload = { reportType: 'books', format: 'csv' }
        const id = (await test.send({ method: 'POST', url: '/api/reports', payload })).json().taskId
        const result = { resultKey: 'key', sizeBytes: 1, sha256: 'x', expiresAt: '2026-03-08T12:00:00.000Z' }
        const values = { status: 'completed' as const, completedAt: '2026-03-01T12:00:00.000Z', ...result }
        await db.write((tx) => tx.updateTable('tasks').set(values).where('id', '=', id).execute())
        const response = await test.send({ method, url: `/api/reports/${id}${part}` })
        assert.deepEqual([response.statusCode, response.json().errorCode], [503, 'SERVICE_UNAVAILABLE'])
        assert.ok(Number(response.headers['retry-after']) >= 1)
        assert.equal(response.headers['content-disposition'], undefined)
        await until(() => store.connections() === 0)
      })
    }
  })
})

describe('an S3 store with many downloads in progress', { skip: s3Missing }, () => {
  let stop: () => void
  let results: ResultStore
  const stalled: Readable[] = []
  before(async () => {
    const server = await s3Server()
    stop = server.stop
    results = s3Results(new URL(server.url))
  })
  after(() => {
    for (const content of stalled) content.destroy()
    stop()
  })

  it('still accepts uploads, removals and other downloads while 70 open downloads are not being read', async () => {
    const large = await results.create('large')
    await large.write(Buffer.alloc(4 * 1_024 * 1_024))
    await large.finish()
    for (let n = 0; n < 70; n++) stalled.push(await results.open('large'))
    const small = await results.create('small')
    await small.write('small')
    assert.equal((await small.finish()).sizeBytes, 5)
    assert.equal(String(Buffer.concat(await (await results.open('small')).toArray())), 'small')
    await results.remove('small')
    await assert.rejects(results.open('small'), (error) => !(error instanceof ResultsUnavailable))
  })
})
