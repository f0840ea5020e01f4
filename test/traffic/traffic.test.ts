import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import { busiestKeys } from '../../src/traffic/busiest.ts'
import { expireTraffic, trafficCounter } from '../../src/traffic/counter.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000]
const start = Date.parse('2026-03-01T12:10:00.000Z')
const admin = token('admin', 'cli_admin')

describe('busiestKeys', () => {
  it('returns the exact count of a busy key and the exact total, regardless of the number of keys', () => {
    const counter = busiestKeys(100, 10)
    for (let at = 0; at < 10_000; at++) {
      counter.count(`key ${at}`, 0)
      counter.count('busy', at % 2 === 0 ? 0 : 3)
    }
    const taken = counter.take()
    assert.equal(taken?.keys.length, 10)
    assert.deepEqual(taken.keys[0], ['busy', 5_000, 0, 0, 5_000])
    const shown = taken.keys.reduce((sum, [, ok]) => sum + ok, 0)
    assert.deepEqual(taken.others, [15_000 - shown, 0, 0, 0])
    assert.equal(counter.take(), null)
  })
})

describe('busiestKeys with grouped keys', () => {
  it('counts all addresses of a network as one key, even if the addresses outnumber the keys that it can store', () => {
    const counter = busiestKeys(100, 10, (key) => key.split('.')[0] ?? '')
    for (let at = 0; at < 1_000; at++) counter.count(`network.${at}`, 0)
    for (let at = 0; at < 30; at++) for (let times = 0; times < 5; times++) counter.count(`single ${at}`, 0)
    const taken = counter.take()
    assert.deepEqual([taken?.keys[0], taken?.keys.length], [['network', 1_000, 0, 0, 0], 10])
    assert.deepEqual(taken?.others, [30 * 5 - 9 * 5, 0, 0, 0])
  })
})

forEachEngine((engine) => {
  describe('GET /api/traffic', () => {
    let db: Database
    let service: TestApp
    let now = start
    const errors: unknown[] = []
    const counterOn = (node: string, database = db) =>
      trafficCounter({ db: database, node, now: () => now, onError: (error) => errors.push(error) })
    let counter: ReturnType<typeof counterOn>
    before(async () => {
      db = await engine.database()
      counter = counterOn('nod_a')
      service = await testApp(db, { prefixes: [''], now: () => now })
    })
    after(async () => {
      await counter.close()
      await service.app.close()
      await db.close()
      assert.deepEqual(service.faults, [])
    })
    const line = (client?: string, subject = client, status = 200, address = '192.0.2.1') => ({
      ...{ client, subject, address, status },
    })
    const traffic = async (query: string) => {
      const response = await service.send({ url: `/api/traffic${query}`, token: admin })
      assert.equal(response.statusCode, 200, response.body)
      return response.json()
    }
    const keysIn = (view: { busiest: { key: string | null; requests: number }[] }) =>
      view.busiest.map(({ key, requests }) => [key, requests])
    /** Advances the clock just past the end of the minute, and stores the counts of the minute. */
    const endMinute = async (...counters: { flush: () => Promise<void> }[]) => {
      now = Math.floor(now / minuteMs) * minuteMs + minuteMs + 6_000
      for (const one of [counter, ...counters]) await one.flush()
    }

    it('200 with the responses of all nodes in the last complete minute, by client, with client names', async () => {
      const machine = { name: 'Partner', scopes: ['reports:read'], grants: ['client_credentials'] }
      const made = await service.send({ method: 'POST', url: '/api/clients', payload: machine, scopes: 'admin' })
      const partner = made.json().id
      const other = counterOn('nod_b')
      for (const status of [200, 204, 304, 404, 429]) counter.count(line(partner, '7', status))
      for (const status of [500, 200]) other.count(line(partner, '8', status))
      for (const status of [200, 200, 401]) other.count(line(undefined, undefined, status, '2001:db8::1'))
      await endMinute(other)
      await other.close()
      const view = await traffic('?by=client&window=minute')
      assert.deepEqual([view.from, view.to], [new Date(start).toISOString(), new Date(start + minuteMs).toISOString()])
      assert.deepEqual(view.busiest, [
        {
          ...{ key: partner, name: 'Partner', requests: 7, succeeded: 4 },
          ...{ clientErrors: 1, limited: 1, serverErrors: 1 },
        },
        { key: null, requests: 3, succeeded: 2, clientErrors: 1, limited: 0, serverErrors: 0 },
      ])
      assert.equal(view.total.requests, 10)
      assert.equal(view.others.requests, 0)
      assert.deepEqual(keysIn(await traffic('?by=subject')), [
        ['7', 5],
        [null, 3],
        ['8', 2],
      ])
      assert.deepEqual(keysIn(await traffic('?by=address')), [
        ['192.0.2.1', 7],
        ['2001:db8:0:0::/64', 3],
      ])
    })

    it('lists a client without a user only as a client, not as a user', async () => {
      counter.count(line('cli_machine'))
      await endMinute()
      assert.deepEqual(keysIn(await traffic('?by=client')), [['cli_machine', 1]])
      assert.deepEqual(keysIn(await traffic('?by=subject')), [[null, 1]])
    })

    it('sums the minutes of an hour, and the hours of a day', async () => {
      now = start + 3 * hourMs
      await counter.flush()
      for (let hour = 0; hour < 3; hour++) {
        for (let minute = 0; minute < 2; minute++) {
          counter.count(line('cli_daily'))
          await endMinute()
        }
        now += hourMs - 2 * minuteMs
        await counter.flush()
      }
      now -= hourMs - 2 * minuteMs
      assert.deepEqual(keysIn(await traffic('?window=hour')), [['cli_daily', 2]])
      const day = await traffic('?window=day')
      assert.deepEqual(
        keysIn(day).filter(([key]) => key === 'cli_daily'),
        [['cli_daily', 6]],
      )
      assert.equal(day.total.requests, 17)
    })

    it('counts each minute once if the timer fires early', async () => {
      const early = counterOn('nod_early')
      now = start + 5 * hourMs - minuteMs + 1_000
      await early.flush()
      for (const requests of [1, 2, 3]) {
        for (let at = 0; at < requests; at++) early.count(line('cli_early'))
        now = Math.ceil(now / minuteMs) * minuteMs - 2
        await early.flush()
        now += 1_002
      }
      await early.close()
      const rows = db.read.selectFrom('traffic').select(['period', 'at', 'counts']).where('node', '=', 'nod_early')
      const stored = await rows.where('kind', '=', 'client').orderBy('at').orderBy('period').execute()
      assert.deepEqual(errors, [])
      assert.deepEqual(
        stored.map(({ period, at, counts }) => [period, at.slice(11, 16), JSON.parse(counts).keys[0][1]]),
        [
          ['hour', '17:00', 6],
          ['minute', '17:09', 1],
          ['minute', '17:10', 2],
          ['minute', '17:11', 3],
        ],
      )
    })

    it('includes the last minute in its hour if the timer fires early', async () => {
      const early = counterOn('nod_hour')
      now = start + 6 * hourMs - 10 * minuteMs - minuteMs + 1_000
      await early.flush()
      early.count(line('cli_early'))
      now = Math.ceil(now / hourMs) * hourMs - 2
      await early.flush()
      early.count(line('cli_early'))
      await early.close()
      const rows = db.read.selectFrom('traffic').select(['at']).where('node', '=', 'nod_hour')
      const stored = await rows.where('kind', '=', 'client').where('period', '=', 'hour').orderBy('at').execute()
      assert.deepEqual(
        stored.map(({ at }) => at.slice(11, 16)),
        ['17:00', '18:00'],
      )
    })

    it('lists the 100 busiest clients, and sums the others', async () => {
      now = start + 10 * hourMs
      await counter.flush()
      for (let at = 0; at < 700; at++) counter.count(line(`cli_${at}`))
      for (let at = 0; at < 3; at++) counter.count(line('cli_699'))
      await endMinute()
      const view = await traffic('')
      assert.equal(view.busiest.length, 100)
      assert.deepEqual(keysIn(view)[0], ['cli_699', 4])
      assert.equal(view.total.requests, 703)
      assert.equal(view.others.requests, 703 - 4 - 99)
    })

    it('counts the addresses of an IPv6 /64 network together, but each IPv4 address separately', async () => {
      now = start + 20 * hourMs
      const other = counterOn('nod_c')
      for (let at = 1; at <= 3; at++) other.count(line('cli_a', '7', 200, `2001:db8:1:2::${at}`))
      other.count(line('cli_a', '7', 500, '2001:db8:1:3::1'))
      for (let at = 1; at <= 2; at++) other.count(line('cli_a', '7', 200, `192.0.2.${at}`))
      await endMinute(other)
      await other.close()
      assert.deepEqual(keysIn(await traffic('?by=address')), [
        ['2001:db8:1:2::/64', 3],
        ['2001:db8:1:3::/64', 1],
        ['192.0.2.1', 1],
        ['192.0.2.2', 1],
      ])
    })

    it('200 without rows for a minute without requests', async () => {
      now += 5 * minuteMs
      const { busiest, total } = await traffic('?by=address')
      assert.deepEqual([busiest, total.requests], [[], 0])
    })

    it('400 for an unknown `by` or `window`, 403 without the admin scope, 401 without a token', async () => {
      for (const query of ['?by=path', '?by=client&window=week']) {
        const response = await service.send({ url: `/api/traffic${query}`, token: admin })
        assert.equal(response.statusCode, 400, query)
      }
      assert.equal((await service.send({ url: '/api/traffic?by=client' })).statusCode, 403)
      assert.equal((await service.send({ url: '/api/traffic?by=client', scopes: null })).statusCode, 401)
    })

    it('reports an error if the counts of a minute cannot be stored', async () => {
      const write: Database['write'] = () => Promise.reject(new Error('down'))
      const cut = counterOn('nod_c', { ...db, write })
      cut.count(line('cli_lost'))
      await cut.close()
      assert.equal(errors.length, 1)
    })

    it('deletes counts per minute after at most three hours, and counts per hour after at most 26 hours', async () => {
      const periods = async () => {
        const rows = await db.read.selectFrom('traffic').select('period').distinct().orderBy('period').execute()
        return rows.map(({ period }) => period)
      }
      await counter.flush()
      assert.deepEqual(await periods(), ['hour', 'minute'])
      await expireTraffic(db, () => now + 3 * hourMs)
      assert.deepEqual(await periods(), ['hour'])
      await expireTraffic(db, () => now + dayMs + 2 * hourMs)
      assert.deepEqual(await periods(), [])
    })
  })
})
