import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { onPostgres, type Place } from '../support/engines.ts'
import { type Node, type Nodes, nodesOn } from '../support/nodes.ts'
import { eventually } from '../support/service.ts'

onPostgres((engine) => {
  describe('three processes on one database, each with one role', () => {
    let place: Place
    let nodes: Nodes
    let api: Node
    let auth: Node
    let worker: Node
    before(async () => {
      place = await engine.migratedPlace()
      nodes = nodesOn(place.url)
      auth = await nodes.start({ PLINTH_ROLES: 'auth' })
      ;[api, worker] = await Promise.all([
        nodes.start({ PLINTH_ROLES: 'api' }),
        nodes.start({ PLINTH_ROLES: 'worker' }),
      ])
    })
    after(async () => {
      await nodes.remove()
      await place.remove()
    })

    it('let a client with a token from `auth` request a report at `api`, which `worker` generates', async () => {
      const token = await auth.token()
      const created = await api.call('POST', '/products', { token, body: { name: 'Lamp', price: 12.5 } })
      assert.equal(created.status, 201, created.text)
      const report = { reportType: 'products', format: 'csv' }
      const accepted = await api.call('POST', '/api/reports', { token, body: report })
      assert.equal(accepted.status, 202, accepted.text)
      const path = `/api/reports/${accepted.json().taskId}`
      await eventually('the report is completed', async () => {
        const { status } = (await api.call('GET', `${path}/status`, { token })).json()
        return status === 'completed'
      })
      const { text } = await api.call('GET', `${path}/download`, { token })
      assert.match(text, /Lamp/)
    })

    it('respond with 404 on the routes of other roles; each process is live and ready', async () => {
      const token = await auth.token()
      const statuses = async (node: Node) => [
        (await node.call('GET', '/products', { token })).status,
        (await node.call('GET', '/oauth/jwks')).status,
        (await node.call('GET', '/livez')).status,
        (await node.call('GET', '/readyz')).status,
      ]
      assert.deepEqual(await statuses(api), [200, 404, 200, 200])
      assert.deepEqual(await statuses(auth), [404, 200, 200, 200])
      assert.deepEqual(await statuses(worker), [404, 404, 200, 200])
      const { errorCode } = (await worker.call('POST', '/oauth/token', { body: {} })).json()
      assert.equal(errorCode, 'RESOURCE_NOT_FOUND')
    })

    it('are listed by GET /api/nodes and by `plinth nodes`', async () => {
      const listed = (await api.call('GET', '/api/nodes', { token: await auth.token() })).json()
      const facts = listed.map(({ pid, roles, status, self }: Record<string, unknown>) => [pid, roles, status, self])
      assert.deepEqual(facts.sort(), [
        ...[
          [api.child.pid, ['api'], 'live', true],
          [auth.child.pid, ['auth'], 'live', false],
          [worker.child.pid, ['worker'], 'live', false],
        ].sort(),
      ])
      const { code, stdout, stderr } = await nodes.command('nodes')
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(stdout, /^host +process +status +release +roles +clock ahead +heartbeat\n/)
      assert.match(stdout, new RegExp(` ${worker.child.pid} +live +\\S+ +worker +-?\\d+ ms +\\d+ s ago\\n`))
    })

    it('exit code 2 for a process whose base URL and Redis setting differ from those of the others', async () => {
      const { code, stderr } = await nodes.fails({
        PLINTH_BASE_URL: 'https://other.test',
        REDIS_URL: 'redis://127.0.0.1:1/0',
      })
      assert.equal(code, 2, stderr)
      assert.match(stderr, /^plinth: this process does not agree with those that use the database:\n/)
      for (const { child } of [api, auth, worker]) {
        const at = `in process ${child.pid} on \\S+ \\(release \\S+\\)\n`
        assert.match(stderr, new RegExp(`PLINTH_BASE_URL is https://other.test here, but https://plinth.test ${at}`))
        assert.match(stderr, new RegExp(`REDIS_URL is set here, but not set ${at}`))
      }
      assert.match(stderr, /\nCorrect this process, or stop the others first; /)
    })

    it('exit code 2 for a process whose master key does not match the database', async () => {
      const { code, stderr } = await nodes.fails({ PLINTH_MASTER_KEY: 'cd'.repeat(32) })
      assert.equal(code, 2, stderr)
      assert.match(stderr, /master key/i)
    })

    it('are removed from the list when they stop', async () => {
      await worker.stop()
      const token = await auth.token()
      const listed = (await api.call('GET', '/api/nodes', { token })).json()
      assert.equal(listed.length, 2)
    })
  })
})
