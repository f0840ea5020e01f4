import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { cronError, nextTime } from '../../src/jobs/cron.ts'
import type { ServedSchedule } from '../../src/jobs/served-jobs.ts'
import { forEachEngine } from '../support/engines.ts'
import { jobOf, jobsOn, served } from './support.ts'

const zone = 'Europe/Berlin'

describe('the times of a schedule', () => {
  const times = (cron: string, from: string, count: number) => {
    const found: string[] = []
    for (let at = Date.parse(from); found.length < count; found.push(new Date(at).toISOString().slice(0, 16))) {
      at = nextTime({ cron, zone }, at)
    }
    return found
  }

  it('follow the time zone when daylight saving time starts and ends', () => {
    assert.deepEqual(times('0 8 * * 1-5', '2027-03-25T12:00:00Z', 2), ['2027-03-26T07:00', '2027-03-29T06:00'])
    assert.deepEqual(times('0 8 * * 1-5', '2026-10-22T12:00:00Z', 2), ['2026-10-23T06:00', '2026-10-26T07:00'])
  })

  it('are an hour later on the day when daylight saving time skips them', () => {
    assert.deepEqual(times('30 2 * * *', '2027-03-26T12:00:00Z', 3), [
      '2027-03-27T01:30',
      '2027-03-28T01:30',
      '2027-03-29T00:30',
    ])
  })

  it('are not repeated when daylight saving time ends, unless the schedule is hourly', () => {
    assert.deepEqual(times('30 2 * * *', '2026-10-24T12:00:00Z', 2), ['2026-10-25T00:30', '2026-10-26T01:30'])
    assert.deepEqual(times('0 * * * *', '2026-10-24T23:30:00Z', 3), [
      '2026-10-25T00:00',
      '2026-10-25T01:00',
      '2026-10-25T02:00',
    ])
  })

  it('come strictly after the given time', () => {
    assert.deepEqual(times('0 8 * * *', '2026-11-23T07:00:00.000Z', 1), ['2026-11-24T07:00'])
  })

  for (const [cron, message] of [
    ['* * * *', "'* * * *' must have five fields: minute, hour, day of the month, month and day of the week"],
    ['0 0 8 * * *', /must have five fields/],
    ['61 * * * *', /^'61 \* \* \* \*' is not a cron expression: /],
    ['0 0 31 2 *', /^'0 0 31 2 \*' is not a cron expression: /],
  ] as const) {
    it(`cannot be defined by the cron expression '${cron}'`, () => {
      const error = cronError(cron) ?? ''
      typeof message === 'string' ? assert.equal(error, message) : assert.match(error, message)
    })
  }

  it('can be defined by lists, ranges and steps', () => assert.equal(cronError('*/5 8-18 1,15 * 1-5'), undefined))
})

forEachEngine((engine) => {
  describe('a schedule', () => {
    const test = jobsOn(engine)
    const { clock, node, rows } = test
    const daily = { name: 'daily', cron: '0 8 * * *', zone, missed: 'once' } as const
    const at = (text: string) => {
      clock.now = Date.parse(text)
    }
    const ran: (string | null)[] = []
    const start = (schedule: ServedSchedule) => {
      ran.length = 0
      const job = { ...jobOf(schedule.name, () => {}), inputError: () => undefined }
      const run: typeof job.run = async (_, { scheduledFor }) => void ran.push(scheduledFor)
      return node(served([{ ...job, run }], [schedule]))
    }
    const added = async () => (await rows()).map(({ scheduledFor }) => scheduledFor?.slice(0, 16))

    it('adds one job for each time, even on three nodes', async () => {
      at('2026-11-23T06:00:00Z')
      const nodes = [await start(daily), await start(daily), await start(daily)]
      const check = () => Promise.all(nodes.map(({ work }) => work.check()))
      await check()
      assert.deepEqual(await added(), [])
      for (const day of [23, 24, 25]) {
        at(`2026-11-${day}T06:59:59.999Z`)
        await check()
        at(`2026-11-${day}T07:00:00.500Z`)
        await check()
        await check()
      }
      for (let n = 0; n < 3; n++) await test.reaches('completed', n)
      const expected = ['2026-11-23T07:00', '2026-11-24T07:00', '2026-11-25T07:00']
      assert.deepEqual(await added(), expected)
      assert.deepEqual(ran.map((time) => time?.slice(0, 16)).sort(), expected)
    })

    it('adds one job for all missed times if `missed` is `once`', async () => {
      at('2026-11-23T06:00:00Z')
      const worker = await start(daily)
      await worker.work.check()
      at('2026-11-27T12:00:00Z')
      await worker.work.check()
      await worker.work.check()
      assert.deepEqual(await added(), ['2026-11-23T07:00'])
      at('2026-11-28T07:00:01Z')
      await worker.work.check()
      assert.deepEqual(await added(), ['2026-11-23T07:00', '2026-11-28T07:00'])
    })

    it('adds no job for missed times if `missed` is `skip`, except for one in the last minute', async () => {
      at('2026-11-23T06:00:00Z')
      const worker = await start({ ...daily, missed: 'skip' })
      await worker.work.check()
      at('2026-11-24T12:00:00Z')
      await worker.work.check()
      assert.deepEqual(await added(), [])
      at('2026-11-26T07:00:30Z')
      await worker.work.check()
      assert.deepEqual(await added(), ['2026-11-26T07:00'])
      at('2026-11-27T07:01:30Z')
      await worker.work.check()
      assert.deepEqual(await added(), ['2026-11-26T07:00'])
    })

    it('does not catch up on times before it was declared or changed', async () => {
      at('2026-11-23T09:00:00Z')
      const first = await start(daily)
      await first.work.check()
      await first.stop()
      at('2026-11-23T12:00:00Z')
      const second = await start({ ...daily, cron: '0 11 * * *' })
      await second.work.check()
      await second.work.check()
      assert.deepEqual(await added(), [])
      at('2026-11-24T10:00:01Z')
      await second.work.check()
      assert.deepEqual(await added(), ['2026-11-24T10:00'])
    })
  })
})
