import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import type { StorageReport } from '../../src/operations/storage.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine, onSqlite } from '../support/engines.ts'
import { eventually } from '../support/service.ts'

forEachEngine((engine) => {
  describe('GET /api/storage', () => {
    const folder = mkdtempSync(join(tmpdir(), 'plinth-storage-'))
    after(() => rmSync(folder, { recursive: true }))
    const service = appOn(engine, {
      prefixes: [''],
      env: { PLINTH_RESULTS_URL: `file:${folder}/results`, PLINTH_BACKUP_URL: 's3://bucket/backups' },
    })
    /** Reads the report, after advancing the clock so that no cached report is returned. */
    const read = async (): Promise<StorageReport> => {
      service.clock.now += 300_000
      const answer = await service.send({ url: '/api/storage', scopes: 'admin' })
      assert.deepEqual([answer.statusCode, answer.headers['cache-control']], [200, 'no-store'])
      return answer.json()
    }

    it('200 with the tables by size, the files and the free space', async () => {
      await service.db.write(async (tx) => {
        const rows = Array.from({ length: 300 }, (_, at) => ({
          day: '2026-03-01',
          clientId: `client-${at}`,
          requests: 1,
        }))
        await tx.insertInto('requestCounts').values(rows).execute()
      })
      const report = await eventually('sizes of tables', async () => {
        const found = await read()
        return found.tables && found
      })
      const { tables = [], tableBytes, files, disks } = report
      assert.equal(report.engine, engine.name)
      assert.equal(
        tableBytes,
        tables.reduce((sum, { bytes }) => sum + bytes, 0),
      )
      assert.ok(tables.every(({ bytes }, at) => bytes <= (tables[at - 1]?.bytes ?? Number.POSITIVE_INFINITY)))
      const counted = tables.find(({ table }) => table === 'request_counts')
      if (engine.name === 'sqlite') assert.equal(counted?.rows, 300)
      else assert.ok(counted && counted.rows >= 0)
      const byName = new Map(files.map((one) => [one.name, one]))
      assert.equal(byName.has('database'), engine.name === 'sqlite')
      assert.deepEqual(byName.get('backups'), { name: 'backups', place: 's3://bucket/backups' })
      assert.ok(disks.length > 0 && disks.every(({ freeBytes, totalBytes }) => freeBytes <= totalBytes))
      assert.ok(disks.some(({ contains }) => contains.includes('results')))
    })

    it('counts the files of a folder and their bytes; a folder that does not exist is empty', async () => {
      const results = async () => (await read()).files.find(({ name }) => name === 'results')
      const place = join(folder, 'results')
      assert.deepEqual(await results(), { name: 'results', place, bytes: 0, files: 0, complete: true })
      mkdirSync(place)
      writeFileSync(join(place, 'one.csv'), 'four')
      writeFileSync(join(place, 'two.csv'), 'seven 7')
      mkdirSync(join(place, 'folder'))
      assert.deepEqual(await results(), { name: 'results', place, bytes: 11, files: 2, complete: true })
    })

    it('403 without the admin scope, 401 without a token', async () => {
      assert.equal((await service.send({ url: '/api/storage' })).statusCode, 403)
      assert.equal((await service.send({ url: '/api/storage', scopes: null })).statusCode, 401)
    })
  })
})

onSqlite((engine) => {
  describe('GET /api/storage on a slow disk', () => {
    const service = appOn(engine, { prefixes: [''], operations: { readStorage: async () => null } })

    it('503 with Retry-After if the measurement does not finish in time', async () => {
      const { statusCode, headers } = await service.send({ url: '/api/storage', scopes: 'admin' })
      assert.deepEqual([statusCode, headers['retry-after']], [503, '10'])
      // The 503 is also recorded as a fault.
      service.faults.length = 0
    })
  })
})
