import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import { onSqlite, type Place } from '../support/engines.ts'
import { seedProducts } from '../support/kill.ts'
import { type RealService, realService } from '../support/service.ts'
import { ended, eventually, killAll, newPlace, plinth, serving, visit } from './support.ts'

after(killAll)

describe('a second `plinth serve` on the same SQLite file', () => {
  it('exit code 2 and the id of the first process, which keeps serving; other commands still work', async (t) => {
    const { dataDir, port, env, remove } = await newPlace()
    const linked = `${dataDir}-link`
    symlinkSync(dataDir, linked)
    t.after(() => {
      remove()
      rmSync(linked)
    })
    const first = await serving(dataDir, port, env)
    for (const folder of [dataDir, linked]) {
      const { code, stderr } = await ended(plinth(['serve'], { ...env, PLINTH_DATA_DIR: folder, PLINTH_PORT: '0' }))
      assert.equal(code, 2)
      const named = new RegExp(`plinth\\.db is used by process ${first.child.pid}, started at (\\S+Z): stop it first`)
      const since = Date.parse(named.exec(stderr)?.[1] ?? '')
      assert.ok(Math.abs(Date.now() - since) < 600_000, stderr)
    }
    for (const command of [['clients', 'list'], ['migrate'], ['keys', 'list']]) {
      const { code, stderr } = await ended(plinth(command, env))
      assert.deepEqual([command, code, stderr], [command, 0, ''])
    }
    const copy = spawnSync('sqlite3', [join(dataDir, 'plinth.db'), `.backup ${join(dataDir, 'copy.db')}`])
    if (copy.error === undefined) assert.equal(copy.status, 0)
    assert.equal((await visit(dataDir, `https://localhost:${port}/readyz`)).status, 200)

    // A lock left by a killed process must not prevent the next start.
    first.child.kill('SIGKILL')
    await first.ended
    const second = await serving(dataDir, port, env)
    second.child.kill('SIGTERM')
    assert.equal((await ended(second)).code, 0)
    const third = await serving(dataDir, port, env)
    third.child.kill('SIGTERM')
    assert.equal((await ended(third)).code, 0)
  })
})

onSqlite((engine) => {
  describe('a start after kill -9', () => {
    let place: Place
    let db: Database
    let service: RealService
    before(async () => {
      place = await engine.migratedPlace()
      db = await seedProducts(place.url, 40_000)
      service = await realService({ DATABASE_URL: place.url })
    })
    after(async () => {
      await service.remove()
      await db.close()
      await place.remove()
    })
    const inAnHour = new Date(Date.now() + 3_600_000).toISOString()
    /** Extends the leases beyond the end of the test: they are released only if the next start takes them over. */
    const lengthen = () =>
      db.write(async (tx) => {
        for (const table of ['jobs', 'deliveries'] as const) {
          await tx.updateTable(table).set({ leaseUntil: inAnHour }).where('leaseUntil', 'is not', null).execute()
        }
      })

    it('resumes a report at once, as its next attempt and with a new fencing token', async () => {
      await service.start()
      const body = { reportType: 'products', format: 'xlsx' }
      const id = (await service.call('POST', '/api/reports', { body })).json().taskId
      const results = join(service.dataDir, 'results')
      await eventually('a worker thread writes the file', async () => readdirSync(results).includes(`.${id}-1.part`))
      await service.kill('SIGKILL')
      const job = () => db.read.selectFrom('jobs').selectAll().where('queue', '=', 'report.generate')
      const claimed = await job().executeTakeFirstOrThrow()
      assert.ok(claimed.leaseUntil)
      await lengthen()

      await service.start()
      const task = () => db.read.selectFrom('tasks').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
      await eventually('the next attempt has begun', async () => (await task()).attempts === 2, 20_000)
      const again = await job().executeTakeFirst()
      if (again) assert.ok(again.fence > claimed.fence + 1, 'one for the start, one for the claim')
      await eventually('it is completed', async () => (await task()).status === 'completed')
      const { attempts, rowCount, resultKey } = await task()
      assert.deepEqual([attempts, rowCount, resultKey], [2, 40_000, `${id}-2`])
      await service.kill('SIGTERM')
    })

    it('resends a webhook call that was in flight', async (t) => {
      let calls = 0
      // The first call gets no response.
      const server = createServer((request, response) => {
        request.resume()
        if (++calls > 1) response.writeHead(204).end()
      })
      t.after(() => {
        server.close()
        server.closeAllConnections()
      })
      await once(server.listen(0, '127.0.0.1'), 'listening')
      const { port } = server.address() as AddressInfo
      await service.start()
      const webhook = { event: 'product.created', callbackUrl: `http://127.0.0.1:${port}/hook` }
      assert.equal((await service.call('POST', '/api/webhooks', { body: webhook })).status, 201)
      await service.call('POST', '/products', { body: { name: 'One', price: 1 } })
      await eventually('the call is in flight', async () => calls === 1)
      await service.kill('SIGKILL')
      const delivery = () => db.read.selectFrom('deliveries').selectAll().executeTakeFirstOrThrow()
      const claimed = await delivery()
      assert.ok(claimed.leaseUntil)
      await lengthen()

      await service.start()
      await eventually('it is delivered', async () => (await delivery()).status === 'delivered', 20_000)
      assert.equal(calls, 2)
      assert.ok((await delivery()).fence > claimed.fence + 1)
    })
  })
})
