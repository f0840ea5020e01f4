import assert from 'node:assert/strict'
import { hostname } from 'node:os'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import { inspection } from '../../src/inspection/inspection.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'

/** The master key with which `testApp` creates its sealer. */
const env = { PLINTH_MASTER_KEY: '01'.repeat(32) }
const [healthPath, auditPath] = ['/api/health/examination', '/api/audit/verification']

forEachEngine((engine) => {
  const on = (service: ReturnType<typeof appOn>) => {
    const call = (method: 'GET' | 'POST', url: string, payload?: object, scopes = 'admin') =>
      service.send({ method, url, scopes, ...(payload && { payload }) })
    return {
      call,
      /** Starts a check, waits until it has finished, and returns its state. */
      outcome: async (url: string, payload?: object) => {
        const answer = await call('POST', url, payload)
        assert.deepEqual([answer.statusCode, answer.headers.location, answer.json().status], [202, url, 'running'])
        return eventually('outcome', async () => {
          const state = (await call('GET', url)).json()
          return state.status !== 'running' && state
        })
      },
      add: async () => {
        for (const name of ['One', 'Two']) await call('POST', '/api/keys', { name })
      },
    }
  }

  describe('/api/health/examination', () => {
    const service = appOn(engine, { prefixes: [''], env })
    const { call, outcome } = on(service)

    it('202, then a report that includes the deep checks, with the areas in the same order as in GET /api/health', async () => {
      assert.deepEqual((await call('GET', healthPath)).json(), { status: 'never' })
      const { status, node, report, error } = await outcome(healthPath)
      assert.deepEqual([status, node, error], ['completed', `${hostname()} ${process.pid}`, undefined])
      const shallow = (await call('GET', '/api/health')).json()
      const ids = (checks: { id: string }[]) => checks.map(({ id }) => id)
      const deep = engine.name === 'sqlite' ? 'database.integrity' : 'database.indexes'
      assert.ok(ids(report.checks).includes(deep))
      assert.deepEqual(
        ids(report.checks)
          .filter((id) => id !== deep)
          .sort(),
        ids(shallow.checks).sort(),
      )
      const areas = report.checks.map(({ area }: { area: string }) => area)
      assert.deepEqual([...new Set(areas)], [...new Set(shallow.checks.map(({ area }: { area: string }) => area))])
      const chain = report.checks.find(({ id }: { id: string }) => id === 'audit.chain')
      assert.deepEqual(chain.status, 'pass')
    })

    it('403 without the admin scope, 401 without a token', async () => {
      for (const method of ['GET', 'POST'] as const) {
        assert.equal((await call(method, healthPath, undefined, 'audit:read')).statusCode, 403)
        assert.equal((await service.send({ method, url: healthPath, scopes: null })).statusCode, 401)
      }
    })
  })

  describe('/api/audit/verification', () => {
    const service = appOn(engine, { prefixes: [''], env })
    const { call, outcome, add } = on(service)

    it('202, then the number of verified entries and a checkpoint of the newest one', async () => {
      await add()
      const { status, result } = await outcome(auditPath)
      const [{ sequence, hash }] = (await call('GET', '/api/audit?limit=1')).json()
      assert.deepEqual(
        [status, result],
        ['completed', { intact: true, entries: sequence, checkpoint: { sequence, hash } }],
      )
      const expected = await outcome(auditPath, { expect: `${sequence}:${hash}`, archives: true })
      assert.deepEqual(expected.result, { ...result, archives: 0 })
    })

    it('finds an entry that does not match an earlier checkpoint', async () => {
      const { result } = await outcome(auditPath, { expect: `1:${'A'.repeat(43)}` })
      const altered = { sequence: 1, reason: 'does not match the given hash' }
      assert.deepEqual(result, { intact: false, altered })
    })

    it('finds an altered entry', async () => {
      const triggers = {
        sqlite: ['drop trigger audit_entries_no_update'],
        postgres: ['drop trigger audit_entries_append_only on audit_entries'],
      }
      await service.db.write(async (tx) => {
        for (const statement of triggers[engine.name as 'sqlite']) await sql.raw(statement).execute(tx)
        await sql`update audit_entries set subject = 'nobody' where sequence = 2`.execute(tx)
      })
      const { status, result } = await outcome(auditPath)
      assert.deepEqual(
        [status, result],
        ['completed', { intact: false, altered: { sequence: 2, reason: 'was altered' } }],
      )
    })

    it('422 for a malformed checkpoint and for an unknown member', async () => {
      assert.equal((await call('POST', auditPath, { expect: '12' })).statusCode, 422)
      assert.equal((await call('POST', auditPath, { other: true })).statusCode, 422)
    })

    it('200 for GET with audit:read; 403 with neither audit:read nor admin, 401 without a token', async () => {
      assert.equal((await call('GET', auditPath, undefined, 'audit:read')).statusCode, 200)
      for (const method of ['GET', 'POST'] as const) {
        assert.equal((await call(method, auditPath, undefined, 'products:read')).statusCode, 403)
        assert.equal((await service.send({ method, url: auditPath, scopes: null })).statusCode, 401)
      }
    })
  })

  describe('an inspection on several nodes', () => {
    const service = appOn(engine, { prefixes: [''] })
    const nodeOf = (node: string, run: (signal: AbortSignal) => Promise<string>, errors: unknown[] = []) =>
      inspection<null, string>({
        ...{ db: service.db, name: 'test', node, now: () => service.clock.now },
        ...{ run: (_, signal) => run(signal), onError: (error) => errors.push(error) },
      })
    const untilAborted = (signal: AbortSignal) =>
      new Promise<string>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))

    it('runs on only one of them; the others report its state, and can start the next inspection afterwards', async () => {
      const { promise, resolve } = Promise.withResolvers<string>()
      const [one, other] = [nodeOf('one', () => promise), nodeOf('other', async () => 'second')]
      const claims = await Promise.allSettled([one, other].map((node) => service.db.write((tx) => node.claim(tx))))
      assert.deepEqual(claims.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
      const at = claims.findIndex(({ status }) => status === 'fulfilled')
      const [winner, loser] = at === 0 ? [one, other] : [other, one]
      const [claim] = claims.flatMap((claim) => (claim.status === 'fulfilled' ? [claim.value] : []))
      assert.equal((await loser.read()).status, 'running')
      await assert.rejects(
        service.db.write((tx) => loser.claim(tx)),
        { code: 'CHECK_IN_PROGRESS' },
      )
      assert.ok(claim)
      winner.start(claim, null)
      resolve('first')
      const state = await eventually('end', async () => {
        const found = await loser.read()
        return found.status === 'completed' && found
      })
      assert.equal(state.result, at === 0 ? 'first' : 'second')
      await service.db.write((tx) => loser.claim(tx))
    })

    it('fails if its process is killed, the check throws, or the service stops', async () => {
      service.clock.now += 90_000
      const errors: unknown[] = []
      const failing = nodeOf('failing', () => Promise.reject(new Error('disk full')), errors)
      assert.deepEqual((await failing.read()).error, 'The process that ran the check has ended')
      failing.start(await service.db.write((tx) => failing.claim(tx)), null)
      const failed = await eventually('failure', async () => {
        const state = await failing.read()
        return state.status === 'failed' && state
      })
      assert.deepEqual([failed.error, errors.length], ['disk full', 1])
      const stopped = nodeOf('stopped', untilAborted, errors)
      stopped.start(await service.db.write((tx) => stopped.claim(tx)), null)
      await stopped.stop()
      const { status, error, node } = await stopped.read()
      assert.deepEqual([status, error, node], ['failed', 'The service was stopped', 'stopped'])
      assert.equal(errors.length, 1)
    })
  })
})
