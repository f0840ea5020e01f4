import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { type RawBuilder, sql } from 'kysely'
import {
  ClockJumped,
  type DriftNotice,
  databaseTime,
  type SharedClock,
  sharedClock,
  sweepClock,
} from '../../src/storage/clock.ts'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

forEachEngine((engine) => {
  let db: Database
  before(async () => {
    db = await engine.database()
  })
  after(() => db.close())

  describe("a node's clock", () => {
    /** This machine's clock is `off` ms ahead; `passed` ms have gone by besides the real ones. */
    function node(off: number) {
      const state = { off, passed: 0, notices: [] as DriftNotice[], moved: 0 }
      const clock = sharedClock({
        db,
        wall: () => Date.now() + state.off,
        monotonic: () => performance.now() + state.passed,
        onDrift: (notice) => void state.notices.push(notice),
        onMoved: () => state.moved++,
      })
      return Object.assign(state, { clock })
    }
    /** That a clock was measured rightly: it is off by no more than the longest of the round trips. */
    async function isRight({ measure, now }: SharedClock): Promise<void> {
      const begun = performance.now()
      await measure()
      const before = await databaseTime(db)()
      const shown = now()
      const after = await databaseTime(db)()
      // Three milliseconds for what is cut off.
      const margin = performance.now() - begun + 3
      assert.ok(shown >= before - margin && shown <= after + margin, `${shown} is not from ${before} to ${after}`)
    }

    it("is that of the database, however far this machine's is off", async () => {
      for (const off of [0, 20 * minuteMs, -20 * minuteMs, 4_000]) {
        const { clock } = node(off)
        await isRight(clock)
        assert.ok(Number.isInteger(clock.now()))
      }
    })

    it("is just this machine's where the two agree", async () => {
      const { clock } = node(0)
      // Both are read on one machine here.
      for (let n = 0; n < 5; n++) await clock.measure()
      assert.ok(Math.abs(clock.now() - Date.now()) <= 2)
    })

    const steps: [offMs: number, drift: string | undefined, isUsable: boolean][] = [
      [4_500, undefined, true],
      [-4_500, undefined, true],
      [6_000, 'tolerable', true],
      [-6_000, 'tolerable', true],
      [29_000, 'tolerable', true],
      [31_000, 'unusable', false],
      [-31_000, 'unusable', false],
    ]
    for (const [off, drift, isUsable] of steps) {
      it(`${off} ms off is ${drift ?? 'nothing to tell'}, and ${isUsable ? 'usable' : 'not usable'}`, async () => {
        const { clock, notices } = node(off)
        for (let n = 0; n < 3; n++) await clock.measure()
        assert.deepEqual(
          notices.map((notice) => notice.drift),
          drift === undefined ? [] : [drift],
        )
        assert.equal(clock.isUsable(), isUsable)
        for (const { aheadMs } of notices) assert.ok(Math.abs(aheadMs - off) < 1_000)
      })
    }

    it('is not held to be wrong because of an answer that takes 40 s', async () => {
      const state = { passed: 0 }
      const slow = {
        ...db,
        prepare: ((query: never) => {
          const prepared = db.prepare(query)
          const all = async (values: readonly unknown[]) => {
            state.passed += 20_000
            const rows = await prepared.all(values)
            state.passed += 20_000
            return rows
          }
          return { ...prepared, all }
        }) as Database['prepare'],
      }
      const begun = Date.now()
      const notices: DriftNotice[] = []
      const clock = sharedClock({
        db: slow,
        // The database's clock stays the real one: seen from it this node is up to 40 s ahead.
        wall: () => begun + state.passed,
        monotonic: () => state.passed,
        onDrift: (notice) => void notices.push(notice),
      })
      await clock.measure()
      assert.deepEqual([notices, clock.isUsable()], [[], true])
    })

    it('tells of a change once, and of the return; of one that comes and goes once a minute at most', async () => {
      const state = node(40_000)
      const tick = async (off: number) => {
        state.off = off
        state.passed += 5_000
        await state.clock.measure()
      }
      for (let n = 0; n < 20; n++) await tick(40_000)
      assert.equal(state.notices.length, 1)
      await tick(0)
      assert.deepEqual(
        state.notices.map(({ drift }) => drift),
        ['unusable', 'none'],
      )
      const before = state.notices.length
      for (let n = 0; n < 120; n++) await tick(n % 2 === 0 ? 6_000 : 0)
      const told = state.notices.length - before
      assert.ok(told >= 1 && told <= 11, `${told} notices in ten minutes`)
    })

    it('notices that it was moved, in both directions, and nothing while it goes on', async () => {
      const state = node(0)
      await state.clock.measure()
      state.off = -20 * minuteMs
      await state.clock.measure()
      await state.clock.measure()
      assert.equal(state.moved, 1)
      state.off = 0
      await state.clock.measure()
      assert.equal(state.moved, 2)
      await isRight(state.clock)
    })

    it('keeps what it knew while the database does not answer', async () => {
      let isAway = false
      const flaky = {
        ...db,
        prepare: ((query: never) => {
          const prepared = db.prepare(query)
          const all = (values: readonly unknown[]) => {
            if (isAway) throw new Error('connection lost')
            return prepared.all(values)
          }
          return { ...prepared, all }
        }) as Database['prepare'],
      }
      const wall = () => Date.now() + hourMs
      const clock = sharedClock({ db: flaky, wall, monotonic: () => performance.now(), onDrift: () => {} })
      await clock.measure()
      isAway = true
      await assert.rejects(clock.measure(), /connection lost/)
      const early = await databaseTime(db)()
      assert.ok(clock.now() < early + 10 * minuteMs, 'still corrected')
      assert.equal(clock.isUsable(), false)
    })
  })

  describe('the clock of the sweeps', () => {
    const start = Date.parse('2026-03-01T12:00:00.000Z')
    /** The database's clock is a row of it that the test writes. */
    const shown = sql`(select cast(value as double precision) from settings where name = 'clock')` as RawBuilder<number>
    let passed = 0
    let jumps: ClockJumped[]
    let look: () => Promise<number>
    const set = (at: number) =>
      db.write(async (tx) => {
        await tx.deleteFrom('settings').where('name', '=', 'clock').execute()
        await tx
          .insertInto('settings')
          .values({ name: 'clock', value: String(at) })
          .execute()
      })
    /** What it shows after this time, when the database's clock shows `at`. */
    const after = async (ms: number, at: number) => {
      passed += ms
      await set(at)
      return (await look()) - start
    }
    beforeEach(() => {
      passed = 0
      jumps = []
      const driven = { ...db, engine: { ...db.engine, now: shown } }
      look = sweepClock(
        driven,
        () => passed,
        (error) => void jumps.push(error),
      )
    })

    it("is the database's as time goes on, and when it is put back", async () => {
      assert.equal(await after(0, start), 0)
      assert.equal(await after(minuteMs, start + minuteMs), minuteMs)
      assert.equal(await after(minuteMs, start + minuteMs + 64_000), minuteMs + 64_000)
      assert.equal(await after(minuteMs, start), 0)
      assert.deepEqual(jumps, [])
    })

    it('goes no further than time does when that jumps 20 minutes ahead, and is it again when it comes back', async () => {
      await after(0, start)
      for (let n = 1; n <= 3; n++) assert.equal(await after(minuteMs, start + (20 + n) * minuteMs), n * minuteMs)
      assert.deepEqual([jumps.length, jumps[0] instanceof ClockJumped], [1, true])
      assert.equal(await after(minuteMs, start + 4 * minuteMs), 4 * minuteMs)
      assert.equal(await after(minuteMs, start + 5 * minuteMs), 5 * minuteMs)
      assert.equal(await after(minuteMs, start + 26 * minuteMs), 6 * minuteMs)
      assert.equal(jumps.length, 2)
    })

    it('believes a clock that stays ahead for longer than any token lives', async () => {
      await after(0, start)
      const ahead = start + 20 * minuteMs
      for (let n = 1; n <= 25; n++) assert.equal(await after(hourMs, ahead + n * hourMs), n * hourMs)
      assert.equal(await after(hourMs, ahead + 26 * hourMs), 20 * minuteMs + 26 * hourMs)
      assert.equal(await after(hourMs, ahead + 27 * hourMs), 20 * minuteMs + 27 * hourMs)
      assert.equal(jumps.length, 1)
    })
  })
})
