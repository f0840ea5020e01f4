import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { describe, it } from 'node:test'
import { allChecks, type HealthReport } from '../../src/health/examine.ts'
import { appOn, testApp } from '../support/app.ts'
import { forEachEngine, onSqlite } from '../support/engines.ts'
import { expectCheck } from './support.ts'

forEachEngine((engine) => {
  describe('GET /api/health', () => {
    const service = appOn(engine)
    const read = async (url = '/api/health') => {
      const response = await service.send({ url, scopes: 'admin' })
      assert.deepEqual([response.statusCode, response.headers['cache-control']], [200, 'no-store'])
      return response.json<HealthReport>()
    }

    it('200 with the applicable checks in order, and the worst status', async () => {
      const report = await read()
      const ids = report.checks.map(({ id }) => id)
      assert.deepEqual(
        ids,
        allChecks.map(({ id }) => id).filter((id) => ids.includes(id)),
      )
      assert.ok(ids.includes('audit.chain') && ids.includes('database.reachable'))
      assert.equal(ids.includes('database.clock'), engine.name === 'postgres')
      assert.equal(ids.includes('database.journal'), engine.name === 'sqlite')
      assert.equal(ids.includes('database.integrity') || ids.includes('database.indexes'), false)
      const found = new Set(report.checks.map(({ status }) => status))
      assert.equal(report.status, found.has('fail') ? 'fail' : 'warn')
      for (const { status, cure } of report.checks) assert.equal(cure === undefined, status === 'pass')
    })

    it('200 with a report cached for ten seconds, in every API version', async () => {
      const first = await read()
      const migrated = (status: string, report: HealthReport) => expectCheck(report, 'database.migrations', status)
      migrated('pass', first)
      await service.db.write((tx) =>
        tx
          .insertInto('migrations' as 'books')
          .values({ name: '9999' } as never)
          .execute(),
      )
      service.clock.now += 9_999
      assert.deepEqual(await read('/v1/api/health'), first)
      service.clock.now += 1
      const second = await read('/v2/api/health')
      assert.equal(Date.parse(second.checkedAt) - Date.parse(first.checkedAt), 10_000)
      migrated('fail', second)
    })

    it('403 without the admin scope, 401 without a token', async () => {
      assert.equal((await service.send({ url: '/api/health' })).statusCode, 403)
      assert.equal((await service.send({ url: '/api/health', scopes: 'audit:read' })).statusCode, 403)
      assert.equal((await service.send({ url: '/api/health', scopes: null })).statusCode, 401)
    })
  })
})

onSqlite((engine) => {
  describe('GET /api/health on a SQLite file', () => {
    const service = appOn(engine)
    const kernelLocks = '/proc/locks'
    const skip = existsSync(kernelLocks) ? false : `${kernelLocks} does not exist`

    it('200 without releasing the file lock that keeps other processes from removing the WAL', { skip }, async () => {
      const { ino } = statSync(service.db.url.replace('file:', ''))
      const locks = () =>
        readFileSync(kernelLocks, 'utf8')
          .split('\n')
          .filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${ino} `))
          .map((line) => line.replace(/^\d+: /, ''))
      const before = locks()
      assert.equal(before.length, 1)
      const report = (await service.send({ url: '/api/health', scopes: 'admin' })).json<HealthReport>()
      expectCheck(report, 'database.journal', 'pass')
      assert.deepEqual(locks(), before)
    })
  })

  describe('GET /api/health with slow checks', () => {
    it('503 with Retry-After if the checks do not finish in time', async (t) => {
      const db = await engine.database()
      const { app, send } = await testApp(db, { operations: { readHealth: async () => null } })
      t.after(async () => {
        await app.close()
        await db.close()
      })
      const { statusCode, headers } = await send({ url: '/api/health', scopes: 'admin' })
      assert.deepEqual([statusCode, headers['retry-after']], [503, '10'])
    })
  })
})
