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
    /** Creates a node whose system clock is `off` ms ahead. Increasing `passed` simulates elapsed time. */
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
    /** Measures the clock; asserts that it then equals the database's clock, within the duration of the measurement. */
    async function isRight({ measure, now }: SharedClock): Promise<void> {
      const begun = performance.now()
      await measure()
      const before = await databaseTime(db)()
      const shown = now()
      const after = await databaseTime(db)()
      // Allows three milliseconds for rounding.
      const margin = performance.now() - begun + 3
      assert.ok(shown >= before - margin && shown <= after + margin, `${shown} is not from ${before} to ${after}`)
    }

    it("follows the database's clock, however far off this machine's clock is", async () => {
      for (const off of [0, 20 * minuteMs, -20 * minuteMs, 4_000]) {
        const { clock } = node(off)
        await isRight(clock)
        assert.ok(Number.isInteger(clock.now()))
      }
    })

    it("equals this machine's clock if the database's clock agrees with it", async () => {
      const { clock } = node(0)
      // The database runs on this machine, so both clocks agree.
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
      it(`reports ${drift ?? 'no'} drift and is ${isUsable ? 'usable' : 'not usable'} when ${off} ms off`, async () => {
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

    it('reports no drift and stays usable when a response takes 40 s', async () => {
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
        // Only this node's clocks advance by 40 s, so it appears to be ahead of the database.
        wall: () => begun + state.passed,
        monotonic: () => state.passed,
        onDrift: (notice) => void notices.push(notice),
      })
      await clock.measure()
      assert.deepEqual([notices, clock.isUsable()], [[], true])
    })

    it('reports the start and the end of a drift once each, and an intermittent drift at most once a minute', async () => {
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
      const count = state.notices.length - before
      assert.ok(count >= 1 && count <= 11, `${count} notices in ten minutes`)
    })

    it('detects that the system clock was set forwards or backwards, and ignores the normal passage of time', async () => {
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

    it('keeps its last correction while the database does not respond', async () => {
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

  describe('sweepClock', () => {
    const start = Date.parse('2026-03-01T12:00:00.000Z')
    /** Replaces the database's clock with a row that the test updates. */
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
    /** Advances real time by `ms` and sets the database's clock to `at`; returns the sweep clock's elapsed time. */
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

    it("follows the database's clock, even when it is set back", async () => {
      assert.equal(await after(0, start), 0)
      assert.equal(await after(minuteMs, start + minuteMs), minuteMs)
      assert.equal(await after(minuteMs, start + minuteMs + 64_000), minuteMs + 64_000)
      assert.equal(await after(minuteMs, start), 0)
      assert.deepEqual(jumps, [])
    })

    it("advances only by elapsed real time after the database's clock has jumped 20 minutes ahead", async () => {
      await after(0, start)
      for (let n = 1; n <= 3; n++) assert.equal(await after(minuteMs, start + (20 + n) * minuteMs), n * minuteMs)
      assert.deepEqual([jumps.length, jumps[0] instanceof ClockJumped], [1, true])
      assert.equal(await after(minuteMs, start + 4 * minuteMs), 4 * minuteMs)
      assert.equal(await after(minuteMs, start + 5 * minuteMs), 5 * minuteMs)
      assert.equal(await after(minuteMs, start + 26 * minuteMs), 6 * minuteMs)
      assert.equal(jumps.length, 2)
    })

    it("trusts the database's clock again once it has stayed ahead for longer than the lifetime of any token", async () => {
      await after(0, start)
      const ahead = start + 20 * minuteMs
      for (let n = 1; n <= 25; n++) assert.equal(await after(hourMs, ahead + n * hourMs), n * hourMs)
      assert.equal(await after(hourMs, ahead + 26 * hourMs), 20 * minuteMs + 26 * hourMs)
      assert.equal(await after(hourMs, ahead + 27 * hourMs), 20 * minuteMs + 27 * hourMs)
      assert.equal(jumps.length, 1)
    })
  })
})
