import assert from 'node:assert/strict'
import { after, before, describe, it, type TestContext } from 'node:test'
import { sql } from 'kysely'
import type { Database } from '../../src/storage/database.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { type Fault, type FaultProxy, faultProxy } from '../support/fault-proxy.ts'
import {
  completesReports,
  emptyLedger,
  eventReceiver,
  further,
  hasLostNothing,
  healthyAgain,
  isUnready,
  type Ledger,
  type Receiver,
  startLoad,
} from '../support/outage.ts'
import { clusterMissing, type PostgresServer, postgresServer, standbyOf, urlAt } from '../support/postgres-cluster.ts'
import { type RealService, realService } from '../support/service.ts'

/** How often each fault occurs; long runs set FAULTS=20. */
const rounds = Number(process.env.FAULTS ?? 1)
const timeout = 120_000 + rounds * 60_000

describe('faults of PostgreSQL and its network', { skip: clusterMissing }, () => {
  let server: PostgresServer
  let proxy: FaultProxy
  let service: RealService
  let hooks: Receiver
  let db: Database
  before(async () => {
    server = await postgresServer()
    proxy = await faultProxy(server.port)
    hooks = await eventReceiver()
    service = await realService({ DATABASE_URL: urlAt(proxy.port) })
    await service.start()
    await service.token()
    db = await openDatabase(urlAt(server.port))
  })
  after(async () => {
    await service?.remove()
    await db?.close()
    await proxy?.close()
    await server?.remove()
    hooks?.close()
  })

  const ledger = emptyLedger()
  /** Sends requests while `fault` runs. Afterwards, expects a healthy service that has lost no acknowledged write. */
  const during = async (t: TestContext, run: string, fault: (ledger: Ledger) => Promise<unknown>) => {
    for (let round = 0; round < rounds; round++) {
      const load = startLoad(service, ledger, { run: `${run}-${round}`, hookUrl: hooks.url })
      try {
        await further(ledger, 201, 10)
        await fault(ledger)
        t.diagnostic(`healthy after ${await healthyAgain(service)} polls`)
        await further(ledger, 201, 10)
      } finally {
        proxy.set({ kind: 'pass' })
        await load.stop()
      }
    }
    t.diagnostic(`responses so far: ${JSON.stringify(Object.fromEntries(ledger.statuses))}`)
    await hasLostNothing(db, ledger)
  }
  const outage = (fault: Fault) => async (ledger: Ledger) => {
    proxy.set(fault)
    await further(ledger, 503, 4)
    await isUnready(service)
    proxy.set({ kind: 'pass' })
  }

  it('503 while connections are refused, and nothing is lost', { timeout }, (t) =>
    during(t, 'refused', outage({ kind: 'refuse' })),
  )

  it('503 while the network loses every packet, and nothing is lost (F-PG-03)', { timeout }, (t) =>
    during(t, 'silent', outage({ kind: 'silent' })),
  )

  it('201 again after connections break in the middle of a message, and nothing is lost (F-PG-03)', { timeout }, (t) =>
    during(t, 'cut', async (ledger) => {
      for (const bytes of [1, 3, 40, 200]) {
        proxy.set({ kind: 'cut', of: 'reply', bytes })
        await further(ledger, 503, 2)
      }
      proxy.set({ kind: 'pass' })
    }),
  )

  it('201 while each packet takes 500 ms (F-PG-03)', { timeout }, (t) =>
    during(t, 'slow', async (ledger) => {
      proxy.set({ kind: 'slow', delayMs: 500 })
      await further(ledger, 201, 4)
      proxy.set({ kind: 'pass' })
    }),
  )

  it('201 or 503 at 1 KB/s, and the service stays alive (F-PG-03)', { timeout }, (t) =>
    during(t, 'narrow', async (ledger) => {
      proxy.set({ kind: 'slow', bytesPerSecond: 1_024 })
      await Promise.race([further(ledger, 201, 4), further(ledger, 503, 4)])
      assert.equal((await service.call('GET', '/livez')).status, 200)
      proxy.set({ kind: 'pass' })
    }),
  )

  it('503 while PostgreSQL restarts after a crash, and nothing is lost (F-PG-01)', { timeout }, (t) =>
    during(t, 'restart', async (ledger) => {
      await server.crash()
      await further(ledger, 503, 4)
      await isUnready(service)
      await server.start()
    }),
  )

  it('201 again after the server terminates every connection, and nothing is lost (F-PG-02)', { timeout }, (t) =>
    during(t, 'terminated', async (ledger) => {
      for (let turn = 0; turn < 5; turn++) {
        await sql`
          select pg_terminate_backend(pid) from pg_stat_activity
          where application_name like 'plinth%' and pid <> pg_backend_pid()`.execute(db.read)
        await further(ledger, 201, 2)
      }
    }),
  )

  const post = (name: string, key?: string) =>
    service.call('POST', '/products', {
      body: { name, price: 1 },
      headers: key === undefined ? {} : { 'idempotency-key': key },
    })
  const rowsOf = async (name: string) =>
    (await db.read.selectFrom('products').select('id').where('name', '=', name).execute()).map(({ id }) => id)

  for (const isSilent of [false, true]) {
    const fault = isSilent ? 'is lost' : 'is replaced by a reset'
    it(`503 if the reply to COMMIT ${fault}; a request with the same key gets the committed row (F-PG-04)`, {
      timeout,
    }, async () => {
      for (let round = 0; round < rounds; round++) {
        const name = `commit-${isSilent}-${round}`
        const dropped = proxy.dropReply({ after: name, reply: 'COMMIT', isSilent })
        const [first] = await Promise.all([post(name, name), dropped])
        assert.deepEqual([first.status, first.headers['retry-after']], [503, '2'])
        const again = await post(name, name)
        assert.deepEqual([again.status, again.headers['idempotent-replayed']], [201, 'true'], again.text)
        assert.deepEqual(await rowsOf(name), [again.json().id])

        const without = `${name}-unkeyed`
        const lost = proxy.dropReply({ after: without, reply: 'COMMIT', isSilent })
        const [second] = await Promise.all([post(without), lost])
        assert.equal(second.status, 503)
        assert.equal((await rowsOf(without)).length, 1)
      }
    })
  }

  describe('a failover to a standby with synchronous replication', () => {
    let standby: PostgresServer
    before(async () => {
      standby = await standbyOf(server)
      await sql`alter system set synchronous_standby_names = 'standby'`.execute(db.read)
      await sql`select pg_reload_conf()`.execute(db.read)
    })
    after(() => standby?.remove())

    it('503 until the standby is promoted; no acknowledged write, report or event is lost', {
      timeout,
    }, async (t) => {
      const load = startLoad(service, ledger, { run: 'failover', hookUrl: hooks.url })
      let promoted: Database | undefined
      try {
        await further(ledger, 201, 20)
        await server.crash()
        await further(ledger, 503, 4)
        proxy.pointTo(standby.port)
        await further(ledger, 503, 4)
        await standby.promote()
        t.diagnostic(`healthy after ${await healthyAgain(service)} polls`)
        await further(ledger, 201, 10)
        await load.stop()
        promoted = await openDatabase(urlAt(standby.port))
        await hasLostNothing(promoted, ledger)
        await completesReports(service, promoted, ledger, hooks)
      } finally {
        await load.stop()
        await promoted?.close()
      }
    })
  })
})
