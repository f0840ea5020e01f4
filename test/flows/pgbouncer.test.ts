import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { onPostgres, type Place } from '../support/engines.ts'
import { type Node, type Nodes, nodesOn } from '../support/nodes.ts'
import { type PgBouncerUnderTest, pgbouncer, pgbouncerMissing } from '../support/pgbouncer.ts'
import { eventually } from '../support/service.ts'

onPostgres((engine) => {
  describe('PgBouncer in transaction mode', { skip: pgbouncerMissing }, () => {
    const role = `plinth_pooled_${randomBytes(4).toString('hex')}`
    let place: Place
    let direct: string
    let pooler: PgBouncerUnderTest
    let admin: pg.Client
    let nodes: Nodes
    before(async () => {
      place = await engine.place()
      admin = new pg.Client({ connectionString: place.url })
      await admin.connect()
      await admin.query(`create role ${role} superuser login`)
      direct = Object.assign(new URL(place.url), { username: role }).href
      pooler = await pgbouncer(direct)
      nodes = nodesOn(pooler.url, { PLINTH_DATABASE_DIRECT_URL: direct })
    })
    after(async () => {
      await nodes.remove()
      await pooler.stop()
      await admin.end()
      await place.remove()
      const server = new pg.Client({ connectionString: process.env.TEST_DATABASE_URL })
      await server.connect()
      await server.query(`drop role ${role}`).finally(() => server.end())
    })

    it('exit code 2 without PLINTH_DATABASE_DIRECT_URL, for `serve` and for commands', async () => {
      const alone = nodesOn(pooler.url)
      for (const { code, stderr } of [await alone.fails(), await alone.command('migrate')]) {
        assert.equal(code, 2, stderr)
        assert.match(stderr, /^plinth: DATABASE_URL leads to a connection pooler.*Set PLINTH_DATABASE_DIRECT_URL to/)
      }
      await alone.remove()
    })

    it('exit code 2 if the database role has no timeouts; the error lists the statements that set them', async () => {
      const { code, stderr } = await nodes.fails()
      assert.equal(code, 2, stderr)
      assert.match(stderr, /^plinth: The connections of the pooler at DATABASE_URL have no statement_timeout and no /)
      const statements = stderr.match(/^alter role .*;$/gm) ?? []
      assert.equal(statements.length, 3)
      for (const statement of statements) await admin.query(statement)
      await pooler.say('reconnect')
    })

    describe('a service that connects through PgBouncer', () => {
      let node: Node
      let token: string
      before(async () => {
        node = await nodes.start()
        token = await node.token()
      })
      const call = (method: string, path: string, body?: object) =>
        node.call(method, path, { token, ...(body && { body }) })

      it('creates its tables, and connects to the pooler and directly to the server', async () => {
        assert.match((await nodes.command('migrate', '--plan')).stdout, /^The schema is up to date\n$/)
        const { rows } = await pooler.say('show clients')
        assert.ok(rows.some(({ application_name: name }) => name === 'plinth'))
        const names = await admin.query(`select distinct application_name as name from pg_stat_activity
          where datname = current_database() and application_name like 'plinth%' order by name`)
        assert.ok(names.rows.some(({ name }) => /^plinth \S+ \d+$/.test(name)))
      })

      it('201 and 200 for parallel writes and reads', async () => {
        const created = await Promise.all(
          Array.from({ length: 40 }, (_, n) => call('POST', '/products', { name: `Lamp ${n}`, price: n + 1 })),
        )
        assert.deepEqual(new Set(created.map(({ status }) => status)), new Set([201]))
        const read = await Promise.all(
          created.flatMap((one) => [
            call('GET', `/products/${one.json().id}`),
            call('PATCH', `/products/${one.json().id}`, { price: 99 }),
          ]),
        )
        assert.deepEqual(new Set(read.map(({ status }) => status)), new Set([200]))
      })

      it('lists, sorts and searches products, and creates the text index', async () => {
        const paths = ['/products?limit=5', '/products?sort=-name', '/products?q=amp%203', '/v2/products?limit=1']
        for (const path of paths) assert.equal((await call('GET', path)).status, 200, path)
        assert.equal((await call('GET', '/products?q=amp%203&limit=50')).json().length, 11)
        await eventually('the text index exists', async () => {
          const { rowCount } = await admin.query(
            `select 1 from pg_index i join pg_class c on c.oid = i.indexrelid where c.relname = 'products_search' and indisvalid`,
          )
          return rowCount === 1
        })
      })

      it('generates reports and sends their events', async () => {
        const received: string[] = []
        const server = createServer((request, response) => {
          received.push(String(request.headers['webhook-id']))
          response.writeHead(204).end()
        }).listen(0, '127.0.0.1')
        await once(server, 'listening')
        try {
          const callbackUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
          const webhook = await call('POST', '/api/webhooks', { event: 'report.completed', callbackUrl })
          assert.equal(webhook.status, 201, webhook.text)
          for (const format of ['csv', 'json']) {
            const accepted = await call('POST', '/api/reports', { reportType: 'products', format })
            const path = `/api/reports/${accepted.json().taskId}`
            await eventually('the report is completed', async () => {
              const { status } = (await call('GET', `${path}/status`)).json()
              assert.notEqual(status, 'failed')
              return status === 'completed'
            })
            assert.match((await call('GET', `${path}/download`)).text, /Lamp 39/)
          }
          await eventually('both events have arrived', async () => new Set(received).size === 2)
        } finally {
          server.closeAllConnections()
          server.close()
        }
      })

      it('is listed as live, holds one advisory lock, and releases it when it stops', async () => {
        const [{ status, pid }] = (await call('GET', '/api/nodes')).json()
        assert.deepEqual([status, pid], ['live', node.child.pid])
        const locks = async () =>
          (
            await admin.query(`select 1 from pg_locks where locktype = 'advisory' and classid = 5470114
              and database = (select oid from pg_database where datname = current_database())`)
          ).rowCount
        assert.equal(await locks(), 1)
        await node.stop()
        assert.equal((await node.ended).code, 0)
        await eventually('the lock is free', async () => (await locks()) === 0)
        assert.doesNotMatch(node.stdout(), /"level":50/)
      })
    })
  })
})
