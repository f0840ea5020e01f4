// Runs in its own process: starts processes with several threads.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Agent, request } from 'undici'
import { forEachEngine, type Place } from '../support/engines.ts'
import { eventually, type RealService, realService } from '../support/service.ts'
import { eventStreamTests } from './streams.ts'

const hanging = fileURLToPath(new URL('hanging-service.ts', import.meta.url))
const plinth = fileURLToPath(new URL('../../bin/plinth.js', import.meta.url))

/** Enough connections that each of four threads almost certainly gets some. */
const connections = 24

type Sent = { status: number; text: string; headers: Record<string, string | string[] | undefined> }

/** Opens connections to a service; the kernel distributes them to its threads. */
function clientsOf(service: RealService) {
  const agents = Array.from({ length: connections }, () => {
    const ca = readFileSync(join(service.dataDir, 'certificates', 'authority.crt'))
    return new Agent({ connections: 1, pipelining: 1, connect: { ca } })
  })
  const send = async (
    at: number,
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    path: string,
    body?: unknown,
    more = {},
  ) => {
    const headers = {
      authorization: `Bearer ${await service.token()}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...more,
    }
    const response = await request(`https://localhost:${service.port}${path}`, {
      ...{ method, headers, body: body === undefined ? null : JSON.stringify(body) },
      dispatcher: agents[at % connections] as Agent,
    })
    return { status: response.statusCode, headers: response.headers, text: await response.body.text() } as Sent
  }
  /** Sends a request on every connection. */
  const each = (method: 'GET' | 'POST', path: string, more = {}) =>
    Promise.all(agents.map((_agent, at) => send(at, method, path, undefined, more)))
  return { send, each, agent: agents[0] as Agent, close: () => Promise.all(agents.map((agent) => agent.destroy())) }
}

forEachEngine((engine) => {
  /** Starts a service and its clients before the tests, and stops them afterward. */
  const using = (env: Record<string, string>) => {
    let place: Place
    const shared = {} as { service: RealService; clients: ReturnType<typeof clientsOf> }
    before(async () => {
      place = await engine.migratedPlace()
      shared.service = await realService({ ...env, DATABASE_URL: place.url })
      await shared.service.start()
      shared.clients = clientsOf(shared.service)
    })
    after(async () => {
      await shared.clients?.close()
      await shared.service?.remove()
      await place?.remove()
    })
    return shared
  }

  for (const threads of ['2', '4']) {
    describe(`a service with ${threads} threads`, () => {
      const on = using({
        PLINTH_THREADS: threads,
        PLINTH_RATE_LIMIT_TOKEN: '100/3600',
        PLINTH_RATE_LIMIT: '1000000/60',
      })

      it('200 with the newest row on every connection after each write', async () => {
        const { text } = await on.clients.send(0, 'POST', '/v1/products', { name: 'Lamp 0', price: 1 })
        const path = `/v1/products/${JSON.parse(text).id}`
        for (let turn = 1; turn <= 20; turn++) {
          const before = await on.clients.each('GET', path)
          const written = await on.clients.send(turn, 'PUT', path, { name: `Lamp ${turn}`, price: 1 })
          assert.equal(written.status, 200)
          const etags = [...new Set(before.map(({ headers }) => String(headers.etag)))]
          assert.equal(etags.length, 1)
          for (const { status, text: row } of await on.clients.each('GET', path, { 'if-none-match': etags[0] })) {
            assert.equal(status, 200)
            assert.equal(JSON.parse(row).name, `Lamp ${turn}`)
          }
        }
      })

      it('200 with all rows on every connection after inserts on all connections', async () => {
        assert.equal((await on.clients.send(0, 'GET', '/v1/books')).text, '[]')
        const body = (at: number) => ({ title: `Book ${at}`, author: 'Ada' })
        const created = await Promise.all(
          Array.from({ length: 60 }, (_, at) => on.clients.send(at, 'POST', '/v1/books', body(at))),
        )
        assert.deepEqual([...new Set(created.map(({ status }) => status))], [201], created[0]?.text)
        for (const { text } of await on.clients.each('GET', '/v1/books?limit=100')) {
          assert.equal(JSON.parse(text).length, 60)
        }
      })

      it('401 on every connection after the client was deleted on one', async () => {
        const machine = { name: 'Partner', grants: ['client_credentials'], scopes: ['reports:read'] }
        const created = await on.clients.send(0, 'POST', '/api/clients', machine)
        assert.equal(created.status, 201, created.text)
        const { id, secret } = JSON.parse(created.text)
        const credentials = Buffer.from(`${id}:${secret}`).toString('base64')
        const issued = await request(`https://localhost:${on.service.port}/oauth/token`, {
          method: 'POST',
          headers: { authorization: `Basic ${credentials}`, 'content-type': 'application/x-www-form-urlencoded' },
          body: 'grant_type=client_credentials',
          dispatcher: on.clients.agent,
        })
        const text = await issued.body.text()
        assert.equal(issued.statusCode, 200, text)
        const { access_token: token } = JSON.parse(text)
        const statuses = async () => {
          const read = await on.clients.each('GET', '/api/reports', { authorization: `Bearer ${token}` })
          return [...new Set(read.map(({ status }) => status))]
        }
        assert.deepEqual(await statuses(), [200])
        assert.equal((await on.clients.send(3, 'DELETE', `/api/clients/${id}`)).status, 204)
        assert.deepEqual(await statuses(), [401])
      })

      it('200 for exactly as many token requests as the limit allows, across all connections', async () => {
        const form = { method: 'POST' as const, body: 'grant_type=client_credentials' }
        const headers = {
          authorization: `Basic ${Buffer.from('boot:boot+secret').toString('base64')}`,
          'content-type': 'application/x-www-form-urlencoded',
        }
        const ca = readFileSync(join(on.service.dataDir, 'certificates', 'authority.crt'))
        const agent = new Agent({ connections, connect: { ca } })
        const statuses = await Promise.all(
          Array.from({ length: 500 }, async () => {
            const url = `https://localhost:${on.service.port}/oauth/token`
            const response = await request(url, { ...form, headers, dispatcher: agent })
            await response.body.dump()
            return response.statusCode
          }),
        )
        await agent.destroy()
        // Earlier tests have used 2 of the 100 token requests.
        assert.equal(statuses.filter((status) => status === 200).length, 98)
        assert.equal(statuses.filter((status) => status === 429).length, 402)
      })

      it('adds up the metrics of all threads', async () => {
        const counted = async () => {
          const { text } = await on.clients.send(0, 'GET', '/metrics')
          const line =
            /^plinth_http_requests_total\{route="\/products\/:id",version="v1",method="GET",status="404"\} (\d+)$/m
          return Number(line.exec(text)?.[1] ?? 0)
        }
        const before = await counted()
        await on.clients.each('GET', '/v1/products/999999')
        for (const _ of Array.from({ length: 3 })) assert.equal((await counted()) - before, connections)
      })

      it('reports the CPU time and the start of the process, whichever thread responds', async () => {
        const seconds: number[] = []
        for (let at = 0; at < connections; at++) {
          const { text } = await on.clients.send(at, 'GET', '/metrics')
          assert.match(text, /^process_start_time_seconds \d+/m)
          seconds.push(Number(/^process_cpu_seconds_total ([\d.]+)$/m.exec(text)?.[1]))
        }
        assert.deepEqual(
          seconds.toSorted((one, other) => one - other),
          seconds,
        )
      })

      it('records requests under the id of the process', async () => {
        const nodes = JSON.parse((await on.clients.send(0, 'GET', '/api/nodes')).text) as { id: string }[]
        const recorded = await eventually('requests are recorded', async () => {
          const { text } = await on.clients.send(0, 'GET', '/api/requests')
          const rows = JSON.parse(text) as { node: string }[]
          return rows.length >= connections && rows
        })
        assert.deepEqual(
          [...new Set(recorded.map(({ node }) => node))],
          nodes.map(({ id }) => id),
        )
      })

      it('completes a report that is requested on one connection and polled on another', async () => {
        const asked = await on.clients.send(0, 'POST', '/api/reports', { reportType: 'products', format: 'csv' })
        assert.equal(asked.status, 202, asked.text)
        const { status } = await eventually('the report is completed', async () => {
          const { text } = await on.clients.send(
            1,
            'GET',
            String(new URL(String(asked.headers.location), 'https://a').pathname),
          )
          return JSON.parse(text).status === 'completed' && JSON.parse(text)
        })
        assert.equal(status, 'completed')
      })

      it('exits with 1 if its port is in use', () => {
        const env = {
          ...process.env,
          PLINTH_PORT: String(on.service.port),
          PLINTH_HTTP_PORT: '0',
          PLINTH_THREADS: threads,
        }
        const other = spawnSync(process.execPath, [plinth, 'serve'], {
          env: { ...env, PLINTH_DATA_DIR: join(on.service.dataDir, 'other') },
          encoding: 'utf8',
        })
        assert.match(other.stderr, /Cannot listen on .* another program is using it/)
        assert.equal(other.status, 1)
      })

      describe('event streams', () => eventStreamTests(on))
    })
  }

  describe('a thread of a service', () => {
    const on = using({ PLINTH_THREADS: '2', PLINTH_DEFINITION: hanging })

    const linesWith = (message: string) => on.service.output().split(`"msg":"${message}"`).length - 1

    const requestsCounted = async () => {
      const { text } = await on.clients.send(2, 'GET', '/metrics').catch(() => on.clients.send(3, 'GET', '/metrics'))
      const lines = [...text.matchAll(/^plinth_http_requests_total\{.*\} (\d+)$/gm)]
      return lines.reduce((sum, [, count]) => sum + Number(count), 0)
    }

    it('is replaced if it hangs: its connections are closed, later requests get 201, and no count decreases', async () => {
      await on.clients.each('GET', '/notes')
      const before = await requestsCounted()
      assert.ok(before >= connections)
      const hung = on.clients.send(0, 'POST', '/notes', { name: 'hang' }).then(
        ({ status }) => status,
        () => 'closed',
      )
      await eventually('a thread is replaced', async () => linesWith('thread replaced') === 1)
      assert.equal(await hung, 'closed')
      assert.equal(linesWith('thread hangs'), 1)
      const created = await Promise.all(
        Array.from({ length: connections }, (_, at) => on.clients.send(at, 'POST', '/notes', { name: `note ${at}` })),
      )
      assert.deepEqual([...new Set(created.map(({ status }) => status))], [201])
      const after = await requestsCounted()
      assert.ok(after >= before + connections, `${before} → ${after}`)
    })

    it('is replaced if an error is thrown outside a request', async () => {
      await on.clients.send(1, 'POST', '/notes', { name: 'crash' }).catch(() => {})
      await eventually('a thread is replaced', async () => linesWith('thread replaced') === 2)
      assert.match(on.service.output(), /crashed outside of a request/)
      const read = await on.clients.each('GET', '/notes?limit=1')
      assert.deepEqual([...new Set(read.map(({ status }) => status))], [200])
    })

    it('keeps running after a rejection in the main thread, which is logged', async () => {
      assert.match(on.service.output(), /"what":"unawaited promise".*rejected in the main thread/)
    })
  })
})
