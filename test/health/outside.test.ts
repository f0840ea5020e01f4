// Runs in its own process: sets the S3 environment variables.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { openResults } from '../../src/files/open.ts'
import { freePort } from '../../src/serving/listeners.ts'
import { onPostgres } from '../support/engines.ts'
import { redisMissing, redisServer } from '../support/redis.ts'
import { s3Missing, s3Server } from '../support/s3.ts'
import { drivenTimers, later, until } from '../support/timers.ts'
import { examined, expectCheck } from './support.ts'

/** Starts a server that accepts connections and never sends anything. */
async function silentServer() {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const close = () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  return { port, connections: () => sockets.size, close }
}

/** Starts a proxy that stops forwarding a client's data at the first chunk that contains `text`. */
async function stallingProxy({ hostname, port }: URL, text: string) {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    for (const socket of [client, upstream]) sockets.add(socket.on('error', () => {}))
    let isStalled = false
    client.on('data', (chunk) => {
      isStalled ||= chunk.includes(text)
      if (!isStalled) upstream.write(chunk)
    })
    upstream.on('data', (chunk) => client.write(chunk))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const close = () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  return { port: (server.address() as AddressInfo).port, close }
}

describe('database.reachable', () => {
  it('fails after the time limit if the server does not respond, and skips the other database checks', async (t) => {
    const { port, connections, close } = await silentServer()
    t.after(close)
    const timers = drivenTimers()
    const DATABASE_URL = `postgres://plinth:rosebud@127.0.0.1:${port}/plinth`
    const examination = examined({ DATABASE_URL }, { later: timers.later, limitMs: 5_000 })
    await until(() => connections() === 1)
    timers.pass(5_000)
    const report = await examination
    expectCheck(report, 'database.reachable', 'fail', /^127\.0\.0\.1:\d+\/plinth: No response within 5 seconds → Start/)
    assert.deepEqual(
      report.checks.filter(({ area }) => area === 'database').map(({ id }) => id),
      ['database.reachable'],
    )
    assert.equal(report.status, 'fail')
    assert.equal(JSON.stringify(report).includes('rosebud'), false)
  })

  it('fails if the server refuses the connection', async () => {
    const DATABASE_URL = `postgres://127.0.0.1:${await freePort()}/plinth`
    expectCheck(await examined({ DATABASE_URL }), 'database.reachable', 'fail', /ECONNREFUSED/)
  })
})

onPostgres((engine) => {
  describe('a database that stops responding', () => {
    it('fails the current check after the time limit, and skips the remaining database checks', async (t) => {
      const place = await engine.migratedPlace()
      t.after(place.remove)
      const { port, close } = await stallingProxy(new URL(place.url), 'select name from migrations')
      t.after(close)
      const DATABASE_URL = Object.assign(new URL(place.url), { host: `127.0.0.1:${port}` }).href
      const report = await examined({ DATABASE_URL }, { later, limitMs: 500 })
      expectCheck(report, 'database.migrations', 'fail', /No response within 0\.5 seconds/)
      assert.deepEqual(
        report.checks.filter(({ area }) => area === 'database').map(({ id, status }) => [id, status]),
        [
          ['database.reachable', 'pass'],
          ['database.migrations', 'fail'],
        ],
      )
    })
  })
})

describe('settings.redis', () => {
  it('warns if the server does not respond', async (t) => {
    const refused = await examined({ REDIS_URL: `redis://127.0.0.1:${await freePort()}` })
    expectCheck(refused, 'settings.redis', 'warn', /Does not respond \(.*ECONNREFUSED.*\); each node counts/)
    const { port, close } = await silentServer()
    t.after(close)
    const silent = await examined({ REDIS_URL: `redis://127.0.0.1:${port}` })
    expectCheck(silent, 'settings.redis', 'warn', /Does not respond \(.*\); each node counts/)
    expectCheck(await examined({}), 'settings.redis', null)
  })

  it('warns if the server may evict counters', { skip: redisMissing }, async (t) => {
    const redis = await redisServer()
    t.after(redis.kill)
    const env = { REDIS_URL: redis.url }
    expectCheck(await examined(env), 'settings.redis', 'pass', /^Responds; eviction policy noeviction/)
    await redis.say('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    expectCheck(await examined(env), 'settings.redis', 'warn', /allkeys-lru may remove counters/)
  })
})

describe('files.results with a bucket', () => {
  const saved = { ...process.env }
  before(async () => {
    const AWS_ENDPOINT_URL = `http://127.0.0.1:${await freePort()}`
    Object.assign(process.env, { AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID: 'key', AWS_SECRET_ACCESS_KEY: 'secret' })
  })
  after(() => {
    process.env = saved
  })

  it('fails if the server refuses the connection', async () => {
    const report = await examined({ PLINTH_RESULTS_URL: 's3://bucket/prefix' })
    expectCheck(report, 'files.results', 'fail', /^s3:\/\/bucket\/prefix cannot be used: .*Check the bucket/)
  })

  it('passes if the bucket exists, and fails if it does not', { skip: s3Missing }, async (t) => {
    const { url, stop } = await s3Server()
    t.after(stop)
    expectCheck(await examined({ PLINTH_RESULTS_URL: url }, { openResults }), 'files.results', 'pass', /^s3:/)
    const other = await examined({ PLINTH_RESULTS_URL: 's3://no-such-bucket/x' }, { openResults })
    expectCheck(other, 'files.results', 'fail', /s3:\/\/no-such-bucket\/x/)
  })
})
