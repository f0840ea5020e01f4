import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { Database } from '../../src/storage/database.ts'
import { sender } from '../../src/webhooks/dispatch/http-client.ts'
import { claimDue, type Due } from '../../src/webhooks/queue/claim.ts'
import { defaultEndpointLimits, shortLimitMs } from '../../src/webhooks/queue/endpoint-queue.ts'
import { removeIdleOwners, reviveOwners } from '../../src/webhooks/queue/owners.ts'
import { mayTake, type Rank, ranks, roomFor, share, slotsOf } from '../../src/webhooks/queue/shares.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { batch, dispatching, newOwner, ok, outcomes, policy, receiver, steps } from '../support/webhooks.ts'

const { failed, delivered } = outcomes
const now = Date.parse('2026-03-01T12:00:00.000Z')
const names = ['a', 'b', 'c', 'd', 'e', 'f']

describe('share', () => {
  const size = fc.integer({ min: 1, max: 600 })
  const rank = fc.constantFrom<Rank>(...ranks)
  const owners = fc.constantFrom(...names)
  const wishes = fc.array(fc.tuple(owners, fc.nat(700)), { maxLength: 6 })

  it('is max-min fair: the next call slot always goes to the owner with the fewest calls', () => {
    const underWay = fc.array(owners, { maxLength: 200 })
    fc.assert(
      fc.property(size, rank, underWay, wishes, (slots, of, calls, wanted) => {
        const unmet = new Map(wanted)
        const held = slotsOf(
          slots,
          calls.map((owner) => ({ owner, rank: of })),
        )
        const { granted } = share(held, of, unmet)
        const gets = (owner: string) => granted.get(owner) ?? 0
        const total = (owner: string) => calls.filter((one) => one === owner).length + gets(owner)
        for (const [owner, count] of unmet) {
          assert.ok(gets(owner) <= count)
          if (gets(owner) === count) continue
          for (const other of unmet.keys()) if (gets(other) > 0) assert.ok(total(other) <= total(owner) + 1)
        }
      }),
    )
  })

  it('grants no more slots than are free, and a pool’s last slot only to an owner without another slot in that pool', () => {
    const underWay = fc.array(fc.record({ owner: owners, rank }), { maxLength: 100 })
    fc.assert(
      fc.property(size, rank, underWay, wishes, (slots, of, calls, wanted) => {
        const before = slotsOf(slots, calls)
        const { granted, left } = share(before, of, new Map(wanted))
        const grantedInAll = [...granted.values()].reduce((sum, count) => sum + count, 0)
        assert.ok(grantedInAll <= roomFor(before, of))
        if (!mayTake(before, 'a newcomer', of) || mayTake(left, 'a newcomer', of)) return
        // The last slot of an exhausted pool must be the only one that its owner holds in that pool.
        const tookLast = (pool: number) => [...granted.keys()].some((owner) => left.held.get(owner)?.[pool] === 1)
        assert.ok(left.free.some((free, pool) => free <= 0 && tookLast(pool)))
      }),
      {
        examples: [
          [
            8,
            2,
            Array(2).fill({ owner: 'b', rank: 0 }),
            [
              ['a', 1],
              ['d', 2],
              ['b', 1],
            ],
          ],
        ],
      },
    )
  })

  it('grants equal shares and leaves free slots for another owner, regardless of the number of owners', () => {
    for (const owners of [1, 2, 4, 20, 100, 255]) {
      const wanted = new Map(Array.from({ length: owners }, (_, n) => [`owner ${n}`, 1_000]))
      const { granted, left } = share(slotsOf(512, []), 0, wanted)
      const counts = [...granted.values()]
      assert.ok(Math.max(...counts) - Math.min(...counts) <= 1, `equal shares of ${owners}`)
      assert.ok(mayTake(left, 'another', 0), `room beside ${owners}`)
      assert.ok(counts.length === owners && roomFor(left, 0) >= Math.floor(448 / (owners + 1)), `${owners}`)
    }
  })

  it('grants an owner more than an equal share if the other owner needs less', () => {
    const wanted = new Map([
      ['modest', 3],
      ['greedy', 1_000],
    ])
    const { granted } = share(slotsOf(512, []), 0, wanted)
    assert.equal(granted.get('modest'), 3)
    assert.ok((granted.get('greedy') ?? 0) > 200)
  })

  it('grants failing endpoints at most half of the slots, and failing and untried endpoints together at most three quarters', () => {
    const many = new Map(Array.from({ length: 2_000 }, (_, n) => [`owner ${n}`, 10]))
    const sum = (of: ReadonlyMap<string, number>) => [...of.values()].reduce((one, other) => one + other, 0)
    const failing = share(slotsOf(512, []), 2, many)
    assert.equal(sum(failing.granted), 256)
    const unknown = share(failing.left, 1, many)
    assert.equal(sum(unknown.granted), 128)
    assert.equal(roomFor(unknown.left, 2), 0)
    assert.equal(roomFor(unknown.left, 0), 128)
  })

  it('leaves some slots for failing and untried endpoints, regardless of the number of responsive endpoints', () => {
    const many = new Map(Array.from({ length: 2_000 }, (_, n) => [`owner ${n}`, 10]))
    const { left } = share(slotsOf(512, []), 0, many)
    assert.deepEqual([roomFor(left, 0), roomFor(left, 1), roomFor(left, 2)], [0, 32, 64])
  })
})

describe('a call’s time limit', () => {
  it('is five seconds after ten failures, except for every fourth call', () => {
    const of = (failures: number) => shortLimitMs({ failures }, defaultEndpointLimits)
    assert.deepEqual([0, 9, 10, 11, 12, 13, 14].map(of), [null, null, 5_000, 5_000, 5_000, null, 5_000])
  })
})

forEachEngine((engine) => {
  describe('a sender’s slots for concurrent calls', () => {
    let db: Database
    const clock = { now }
    const { start, fan, queue } = dispatching(engine, clock, (opened) => {
      db = opened
    })
    const never = new Promise<never>(() => {})

    /** Adds an owner with this many endpoints, each with a waiting delivery. */
    async function waitingFor(host: string, endpoints: number) {
      const fixture = steps(db, queue)
      const owner = newOwner()
      for (let n = 0; n < endpoints; n++) await fixture.subscribe(owner, `https://${host}/${n}`)
      const emit = async () => fan(batch([{ eventId: (await fixture.emit(owner)).id }]))
      await emit()
      return { emit, owner }
    }

    const setRank = (rank: Rank, failures: number) =>
      db.write(async (tx) => {
        await tx.updateTable('deliveryLanes').set({ rank, failures }).execute()
        await tx.deleteFrom('deliveryOwners').execute()
        const lanes = tx.selectFrom('deliveryLanes').where('dueAt', 'is not', null).groupBy('owner')
        const due = lanes.select(({ fn, val }) => ['owner', val(rank).as('rank'), fn.min('dueAt').as('dueAt')])
        await tx.insertInto('deliveryOwners').columns(['owner', 'rank', 'dueAt']).expression(due).execute()
      })

    /** Claims deliveries until no more can be claimed, without completing any call. */
    async function claimAll(hands: number, flying: Due[] = []): Promise<Due[]> {
      for (;;) {
        const slots = slotsOf(hands, flying)
        const claimed = await claimDue({ db, limits: defaultEndpointLimits, leaseMs: 30_000, slots }, clock.now)
        if (claimed.length === 0) return flying
        flying.push(...claimed)
      }
    }

    it('remain available for a healthy endpoint, even if four other owners have enough dead endpoints to fill all slots', async () => {
      for (let n = 0; n < 4; n++) await waitingFor(`dead-${n}.test`, 12)
      const begun: string[] = []
      const node = await start(
        async ({ url }) => {
          begun.push(url)
          return url.includes('dead') ? never : delivered
        },
        { concurrency: 32 },
      )
      await eventually('what may be sent is under way', async () => begun.length >= 16)
      await waitingFor('healthy.test', 1)
      node.wake()
      await eventually('the healthy one is called', async () => begun.includes('https://healthy.test/0'))
      assert.ok(begun.length <= 32)
      await node.stop(0)
    })

    it('remain available for a healthy endpoint, even if more owners than slots have dead, untried endpoints', async () => {
      const healthy = await waitingFor('answers.test', 1)
      const first = await start(async () => delivered)
      await first.settled()
      await first.stop(0)
      for (let n = 0; n < 40; n++) await waitingFor(`unknown-${n}.test`, 2)
      const flying = await claimAll(32)
      assert.equal(flying.length, 24, 'three quarters')
      await healthy.emit()
      const more = await claimAll(32, [...flying])
      assert.deepEqual(
        more.slice(24).map(({ url }) => url),
        ['https://answers.test/0'],
      )
    })

    it('are at most half occupied by failing endpoints, regardless of the number of endpoints and owners', async () => {
      for (let n = 0; n < 30; n++) await waitingFor(`failing-${n}.test`, 3)
      await setRank(2, 1)
      const flying = await claimAll(32)
      assert.equal(flying.length, 16)
      assert.equal(new Set(flying.map(({ owner }) => owner)).size, 16, 'one of each owner')
      await waitingFor('new.test', 1)
      const more = await claimAll(32, [...flying])
      assert.deepEqual(
        more.slice(16).map(({ url }) => url),
        ['https://new.test/0'],
      )
    })

    it('are granted to the owner with the fewest calls when they become free', async () => {
      const large = await waitingFor('large.test', 40)
      const flying = await claimAll(16)
      const small = await waitingFor('small.test', 3)
      const [one] = flying.splice(0, 1)
      const next = await claimAll(16, [...flying])
      const ownersOf = next.slice(flying.length).map(({ ownerClient }) => ownerClient)
      assert.equal(one?.ownerClient, large.owner.ownerClient)
      assert.deepEqual(new Set(ownersOf), new Set([small.owner.ownerClient]))
    })

    it('are granted to an owner in one pass, even if another owner that has reached its limit has many queues due earlier', async () => {
      await waitingFor('crowd.test', 300)
      const flying = await claimAll(8)
      assert.ok(flying.length < 8)
      await waitingFor('late.test', 1)
      const slots = slotsOf(8, flying)
      const claimed = await claimDue({ db, limits: defaultEndpointLimits, leaseMs: 30_000, slots }, clock.now)
      assert.deepEqual(
        claimed.map(({ url }) => url),
        ['https://late.test/0'],
      )
    })

    it('are allocated separately on each node: a second node sends deliveries for which the first has no slots', async () => {
      await waitingFor('wide.test', 20)
      const first = await claimAll(12)
      const second = await claimAll(12)
      assert.equal(new Set([...first, ...second].map(({ id }) => id)).size, first.length + second.length)
      assert.ok(second.length > 0 && first.length === second.length)
    })

    it('limit calls to an endpoint that has failed ten times to five seconds, except every fourth call', async () => {
      const fixture = await waitingFor('gone.test', 1)
      const limits: (number | undefined)[] = []
      const node = await start(
        async ({ timeoutMs }) => {
          limits.push(timeoutMs)
          return failed
        },
        { schedule: [0] },
      )
      for (let n = 0; n < 15; n++) {
        await fixture.emit()
        node.wake()
        await node.settled()
        clock.now += 61_000
      }
      const expected = [...Array(10).fill(undefined), 5_000, 5_000, 5_000, undefined, 5_000]
      assert.deepEqual(limits.slice(0, 15), expected)
    })

    it('are granted to overdue queues without an owner row (left by an earlier release) after one minute', async () => {
      await waitingFor('revived.test', 2)
      await db.write((tx) => tx.deleteFrom('deliveryOwners').execute())
      assert.equal((await claimAll(8)).length, 0)
      clock.now += 60_000
      await reviveOwners(db, () => clock.now)
      assert.equal((await claimAll(8)).length, 2)
    })

    it('are granted for later deliveries even after the rows of idle owners have been removed', async () => {
      await waitingFor('brief.test', 1)
      const node = await start(async () => delivered)
      await node.settled()
      await db.write((tx) => removeIdleOwners(tx, db))
      assert.deepEqual(await db.read.selectFrom('deliveryOwners').selectAll().execute(), [])
      await waitingFor('again.test', 1)
      assert.equal((await claimAll(8)).length, 1)
    })

    it('remain available for a healthy endpoint, even if four other owners’ endpoints accept connections but never respond', async (t) => {
      clock.now = Date.now()
      const sockets = new Set<Socket>()
      const hole = createServer((socket) => void sockets.add(socket.on('error', () => {})))
      await once(hole.listen(0, '127.0.0.1'), 'listening')
      const { port } = hole.address() as AddressInfo
      const client = sender({ policy, timeoutMs: 60_000, now: Date.now })
      t.after(() => {
        for (const socket of sockets) socket.destroy()
        hole.close()
      })
      const { calls, url } = await receiver(t, ok)
      const fixture = steps(db, queue)
      for (let n = 0; n < 4; n++) {
        const owner = newOwner()
        for (let at = 0; at < 12; at++) {
          await fixture.subscribe(owner, `http://127.0.0.1:${port}/${randomBytes(4).toString('hex')}`)
        }
        await fan(batch([{ eventId: (await fixture.emit(owner)).id }]))
      }
      const node = await start(client.post, { concurrency: 32 })
      await eventually('the dead ones are called', async () => sockets.size >= 16)
      const owner = newOwner()
      await fixture.subscribe(owner, url)
      await fan(batch([{ eventId: (await fixture.emit(owner)).id }]))
      node.wake()
      await eventually('the other one is called', async () => calls.length === 1)
      await node.stop(0)
    })
  })
})
