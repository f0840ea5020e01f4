import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { operator } from '../../src/audit/chain.ts'
import { revokeClient } from '../../src/oauth/clients/update.ts'
import type { Database } from '../../src/storage/database.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { visit } from '../cli/support.ts'
import { sealer } from '../oauth/support.ts'
import { forEachEngine, type Place } from '../support/engines.ts'
import { eventually, type RealService, realService } from '../support/service.ts'

const minutes = 20

/**
 * Returns settings that shift the clock of a process, but not the database's. Each SIGWINCH sets the process's clock
 * back 20 minutes.
 */
function clockAhead(minutesAhead: number): Record<string, string> {
  const code = `
    const real = Date
    let ms = ${minutesAhead * 60_000}
    const now = () => real.now() + ms
    globalThis.Date = class extends real {
      constructor(...given) { if (given.length === 0) super(now()); else super(...given) }
      static now() { return now() }
    }
    process.on('SIGWINCH', () => { ms -= ${minutes * 60_000} })`
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}`, PLINTH_LOG_LEVEL: 'warn' }
}

forEachEngine((engine) => {
  let place: Place
  let db: Database
  let service: RealService | undefined
  before(async () => {
    place = await engine.place()
    db = await openDatabase(place.url)
  })
  after(async () => {
    await db.close()
    await place.remove()
  })
  const started = async (minutesAhead: number, more: Record<string, string> = {}) => {
    service = await realService({
      DATABASE_URL: place.url,
      PLINTH_MASTER_KEY: 'ab'.repeat(32),
      PLINTH_BASE_URL: 'https://localhost',
      ...clockAhead(minutesAhead),
      ...more,
    })
    await service.start()
    return service
  }
  // Requests the path without a token, as a health probe does.
  const probe = ({ dataDir, port }: RealService, path: string) => visit(dataDir, `https://localhost:${port}${path}`)
  const stopped = () => service?.remove()

  for (const [where, minutesAhead, threads] of [
    ['ahead', minutes, '1'],
    ['behind', -minutes, '2'],
  ] as const) {
    describe(`a node with PLINTH_THREADS=${threads} whose clock is ${minutes} minutes ${where}`, () => {
      let node: RealService
      before(async () => {
        node = await started(minutesAhead, { PLINTH_THREADS: threads })
      })
      after(stopped)

      it('503 at /readyz with the reason, but 200 at /livez', async () => {
        const ready = await probe(node, '/readyz')
        assert.equal(ready.status, 503)
        assert.equal(ready.headers['retry-after'], '2')
        const { detail, errorCode } = ready.json()
        assert.deepEqual([detail, errorCode], ['The clock of this node is wrong', 'SERVICE_UNAVAILABLE'])
        assert.equal((await probe(node, '/livez')).status, 200)
      })

      it('logs the difference once', async () => {
        const line = await eventually('it is logged', async () => /^\{.*clock out of step.*$/m.exec(node.output())?.[0])
        const { aheadMs, ready } = JSON.parse(line)
        assert.equal(ready, false)
        assert.ok(Math.abs(aheadMs - minutesAhead * 60_000) < 5_000)
        assert.equal(node.output().match(/clock out of step/g)?.length, 1)
      })

      it('401 for a token that is valid only by the node’s own clock, because the database’s clock decides', async () => {
        const response = await node.call('GET', '/api/reports')
        const code = minutesAhead > 0 ? 'AUTH_TOKEN_INVALID' : 'AUTH_TOKEN_EXPIRED'
        assert.deepEqual([response.status, response.json().errorCode], [401, code])
      })
    })
  }

  describe('a node whose clock is set back by 20 minutes', () => {
    after(stopped)

    it('401 for a token whose client was revoked by another process', async () => {
      // The signal reaches the main thread only, so no other thread may serve requests.
      const node = await started(0, { PLINTH_THREADS: '1' })
      const status = async () => (await node.call('GET', '/api/reports')).status
      assert.equal(await status(), 200)
      assert.equal((await probe(node, '/readyz')).status, 200)
      await revokeClient({ db, sealer, actor: operator }, 'boot')
      node.child().kill('SIGWINCH')
      await eventually('it is refused', async () => (await status()) === 401, 25_000)
      assert.equal((await probe(node, '/readyz')).status, 503)
    })
  })
})
