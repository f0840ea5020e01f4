import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { readConfig } from '../../src/config/config.ts'
import { checkAgreement } from '../../src/nodes/compare.ts'
import { type NodeFacts, nodeFacts } from '../../src/nodes/node.ts'
import { expireNodes, registerNode } from '../../src/nodes/nodes.ts'
import { ConfigError } from '../../src/startup-errors.ts'
import type { Database } from '../../src/storage/database.ts'
import { iso } from '../../src/storage/ids.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

/** Returns the facts that a node with these settings publishes. */
const factsOf = (env: Record<string, string> = {}): NodeFacts =>
  nodeFacts({ config: readConfig(env), definition: builtIn, masterKey: Buffer.alloc(32, 1), version: '1.0.0' })

/** Returns the facts of the same node on another machine. */
const elsewhere = (facts: NodeFacts): NodeFacts => ({ ...facts, hostname: 'node-b', pid: 4242 })

const changed = (facts: NodeFacts, change: (resources: Record<string, string[]>) => void): NodeFacts => {
  const resources = JSON.parse(facts.resources)
  change(resources)
  return { ...facts, resources: JSON.stringify(resources), definition: 'another' }
}

describe('a node that starts while another is running', () => {
  const other = elsewhere(factsOf())
  const there = 'in process 4242 on node-b (release 1.0.0)'
  const refused = (own: NodeFacts, text: string) =>
    assert.throws(
      () => checkAgreement(own, [other]),
      (error: ConfigError) => {
        assert.ok(error instanceof ConfigError)
        assert.equal(error.exitCode, 2)
        assert.ok(error.message.includes(text), error.message)
        assert.match(error.message, /^this process does not agree with those that use the database:\n/)
        return true
      },
    )

  it('starts if its settings and definition match', () => assert.deepEqual(checkAgreement(factsOf(), [other]), []))

  it('is refused with a different base URL; the error names both values', () =>
    refused(
      factsOf({ PLINTH_BASE_URL: 'https://api.example.com' }),
      `PLINTH_BASE_URL is https://api.example.com here, but https://localhost:8443 ${there}`,
    ))

  it('is refused with a Redis URL if the other node has none', () =>
    refused(factsOf({ REDIS_URL: 'redis://:secret@cache/0' }), `REDIS_URL is set here, but not set ${there}`))

  it('is refused if it uses a bucket and the other node a folder, but not if they use different folders', () => {
    const s3 = factsOf({ PLINTH_RESULTS_URL: 's3://bucket/results' })
    refused(s3, `PLINTH_RESULTS_URL is s3://bucket/results here, but a folder ${there}`)
    assert.deepEqual(checkAgreement(factsOf({ PLINTH_RESULTS_URL: 'file:/mnt/results' }), [other]), [])
  })

  it('is refused if its definition lacks a resource of the other node', () =>
    refused(
      changed(factsOf(), (resources) => {
        delete resources['/books']
      }),
      'the definition does not have /books, unlike that of process 4242 on node-b (release 1.0.0)',
    ))

  it('starts if its definition adds a resource and a field and lacks another field, and reports the differences', () => {
    const own = changed(factsOf(), (resources) => {
      resources['/notes'] = ['text']
      resources['/products'] = [...(resources['/products'] ?? []), 'colour']
      resources['/books'] = (resources['/books'] ?? []).filter((field) => field !== 'genre')
    })
    const at = 'unlike that of process 4242 on node-b (release 1.0.0)'
    assert.deepEqual(checkAgreement(own, [other]), [
      `the definition also has /notes, /products: colour, ${at}`,
      `the definition does not have the fields /books: genre, ${at}`,
    ])
  })

  it('starts with a different shared secret, issuer and token lifetime, and reports the differences without revealing the secret', () => {
    const differences = checkAgreement(
      factsOf({
        PLINTH_JWT_SHARED_SECRET: 'a secret that must not be shown anywhere',
        PLINTH_TRUSTED_ISSUER: 'https://id.example.com',
        PLINTH_ACCESS_TOKEN_TTL: '600',
      }),
      [other],
    )
    assert.deepEqual(
      differences.map((text) => text.replace(/fingerprint \S+/, 'fingerprint …')),
      [
        `PLINTH_ACCESS_TOKEN_TTL is 600 here, but 900 ${there}`,
        `PLINTH_JWT_SHARED_SECRET is a secret with the fingerprint … here, but not set ${there}`,
        `PLINTH_TRUSTED_ISSUER is https://id.example.com here, but not set ${there}`,
      ],
    )
  })

  it('ignores settings that only one of the two releases compares', () => {
    const { PLINTH_VERSIONS: _, ...settings } = JSON.parse(other.settings)
    const older = { ...other, settings: JSON.stringify({ ...settings, PLINTH_UNKNOWN: 'x' }) }
    assert.deepEqual(checkAgreement(factsOf(), [older]), [])
  })
})

forEachEngine((engine) => {
  describe(`nodes in the database (${engine.name})`, () => {
    const service = appOn(engine, { nodeId: 'nod_self' })
    const startMs = Date.parse('2026-03-01T12:00:00.500Z')
    const register = (db: Database, facts: NodeFacts, nowMs = startMs, found: string[] = []) =>
      registerNode({
        ...{ db, facts, random: randomBytes },
        clock: { now: () => nowMs, aheadMs: () => 12.4 },
        onDiffering: (differences) => found.push(...differences),
        onError: (error) => assert.fail(String(error)),
      })
    const added = async (id: string, heartbeatMs: number, facts = elsewhere(factsOf())) => {
      const row = { id, ...facts, clockAheadMs: 0, startedAt: iso(startMs), heartbeatAt: iso(heartbeatMs) }
      await service.db.write((tx) => tx.insertInto('nodes').values(row).execute())
    }
    const listed = async (url = '/api/nodes') => (await service.send({ url, scopes: 'admin' })).json()
    const emptied = () => service.db.write((tx) => tx.deleteFrom('nodes').execute())

    it('GET /api/nodes: 200 with the live and the lost nodes; 403 without the admin scope', async () => {
      service.clock.now = startMs
      await added('nod_self', startMs)
      await added('nod_late', startMs - 40_000)
      await added('nod_lost', startMs - 40_001)
      const nodes = await listed()
      assert.deepEqual(
        nodes.map(({ id, self, status }: Record<string, unknown>) => [id, self, status]),
        [
          ['nod_self', true, 'live'],
          ['nod_lost', false, 'lost'],
          ['nod_late', false, 'live'],
        ],
      )
      assert.deepEqual(nodes[0], {
        ...{ id: 'nod_self', self: true, status: 'live', hostname: 'node-b', pid: 4242, version: '1.0.0' },
        ...{ roles: ['api', 'auth', 'worker'], baseUrl: 'https://localhost:8443', clockAheadMs: 0 },
        ...{ schemaVersion: factsOf().schemaVersion, definition: factsOf().definition },
        ...{ startedAt: iso(startMs), heartbeatAt: iso(startMs) },
      })
      assert.deepEqual((await listed('/v2/api/nodes?fields=pid')).items[0], { pid: 4242 })
      const { items, next } = await listed('/v2/api/nodes?limit=2&fields=id')
      const rest = await listed(next)
      assert.deepEqual(
        [...items, ...rest.items].map(({ id }) => id),
        ['nod_self', 'nod_lost', 'nod_late'],
      )
      assert.equal((await service.send({ url: '/api/nodes' })).statusCode, 403)
      await emptied()
    })

    it('a registered process has one row, which is removed when the process leaves', async () => {
      const node = await register(service.db, factsOf())
      const [{ id, pid, clockAheadMs, heartbeatAt }] = await listed()
      assert.deepEqual([id, pid, clockAheadMs, heartbeatAt], [node.id, process.pid, 12, iso(startMs)])
      await node.leave()
      assert.deepEqual(await listed(), [])
    })

    it('a row is deleted after a day without a heartbeat', async () => {
      await added('nod_old', startMs)
      assert.equal(await expireNodes(service.db, () => startMs + 86_400_000), 0)
      assert.equal(await expireNodes(service.db, () => startMs + 86_400_001), 1)
    })

    if (engine.name === 'sqlite') {
      it('the rows of earlier processes are deleted, because only one process at a time can use a SQLite file', async () => {
        await added('nod_before', startMs, elsewhere(factsOf({ PLINTH_BASE_URL: 'https://other.test' })))
        const node = await register(service.db, factsOf())
        assert.deepEqual(
          (await listed()).map(({ id }: { id: string }) => id),
          [node.id],
        )
        await node.leave()
      })
    } else {
      it('a process is not registered if its base URL differs from a live one’s; a different token lifetime is only reported', async () => {
        await added('nod_other', startMs)
        await assert.rejects(
          register(service.db, factsOf({ PLINTH_BASE_URL: 'https://other.test' })),
          /PLINTH_BASE_URL is https/,
        )
        assert.equal((await listed()).length, 1)
        const found: string[] = []
        const node = await register(service.db, factsOf({ PLINTH_ACCESS_TOKEN_TTL: '600' }), startMs, found)
        assert.equal(found.length, 1)
        await node.leave()
        await emptied()
      })

      it('only one of two processes with different base URLs is registered if they start concurrently', async () => {
        const outcomes = await Promise.allSettled(
          ['https://one.test', 'https://two.test'].map((url) =>
            register(service.db, elsewhere(factsOf({ PLINTH_BASE_URL: url }))),
          ),
        )
        assert.deepEqual(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
        assert.equal((await listed()).length, 1)
        for (const outcome of outcomes) if (outcome.status === 'fulfilled') await outcome.value.leave()
      })

      it('a process may have a different base URL than an earlier process with the same host and process id', async () => {
        // In a container, the service usually has the process id 1, and a restarted container keeps its host name.
        await added('nod_before', startMs, factsOf())
        const node = await register(service.db, factsOf({ PLINTH_BASE_URL: 'https://other.test' }))
        await node.leave()
        await emptied()
      })

      it('a process may have a different base URL than one whose heartbeat has expired, or than a killed one on the same machine', async () => {
        await added('nod_lost', startMs - 40_001)
        await added('nod_killed', startMs, { ...factsOf(), hostname: hostname(), pid: 2 ** 22 + 1 })
        const node = await register(service.db, factsOf({ PLINTH_BASE_URL: 'https://other.test' }))
        await node.leave()
        await emptied()
      })
    }
  })
})
