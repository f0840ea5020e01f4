import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { checkSchedules } from '../../src/code/run-jobs.ts'
import { collection, Decimal, job, Line, schedule, service, Type } from '../../src/plinth.ts'
import { jobsOn } from '../jobs/support.ts'
import { forEachEngine } from '../support/engines.ts'
import { jobsOf } from './support.ts'

const input = Type.Object({ text: Line(1, 40) })
const run = () => {}

describe('job() and schedule()', () => {
  const invalid: [what: string, make: () => unknown, message: RegExp][] = [
    ['a name in upper case', () => job('Remind', { input, run }), /^job Remind: the name must be lower-case, such as/],
    [
      'an input that is not a schema',
      () => job('remind', { input: {} as never, run }),
      /job remind: input must be created with Type.Object\(\)/,
    ],
    [
      'negative retries',
      () => job('remind', { input, retries: -1, run }),
      /retries must be a whole number from 0 to 100, not -1/,
    ],
    ['a number as `run`', () => job('remind', { input, run: 1 as never }), /job remind: run must be a function/],
    [
      'an unknown value of missed',
      () => schedule('a', '* * * * *', { missed: 'all' as never }, run),
      /missed must be 'once' or 'skip', not 'all'/,
    ],
  ]
  for (const [what, make, message] of invalid) {
    it(`reject ${what}`, () =>
      assert.throws(make, (error: Error) => error.name === 'DefinitionError' && message.test(error.message)))
  }

  it('make service() throw if they have the same name', () => {
    const notes = collection({ path: '/notes', noun: 'note', body: input })
    const code = { one: job('same', { input, run }), other: schedule('same', '* * * * *', run) }
    assert.throws(() => service({ resources: [notes], code }), /the job or schedule same is declared twice/)
  })

  it('accept an invalid cron expression and an unknown time zone, which checkSchedules rejects', async () => {
    const schedules = [schedule('a', '61 * * * *', run), schedule('b', '* * * * *', { zone: 'Europe/Nowhere' }, run)]
    await assert.rejects(
      checkSchedules(schedules),
      /schedule a: '61 \* \* \* \*' is not a cron expression.*\nschedule b: zone must be/s,
    )
  })
})

forEachEngine((engine) => {
  describe('the run function of a job', () => {
    const test = jobsOn(engine)

    it('reads and writes rows; the job fails if it throws, and cannot be added with invalid input', async () => {
      const notes = collection({ path: '/notes', noun: 'note', body: input })
      const copy = job('note.copy', {
        input,
        retries: 0,
        run: async ({ text }, { insert, count }) => {
          await insert(notes, { text })
          if ((await count(notes)) > 1) throw new Error('Two notes')
        },
      })
      const worker = await test.node(await jobsOf(test, service({ resources: [notes], code: { copy } })))
      await test.add(worker, { text: 'one' }, {}, 'note.copy')
      await test.reaches('completed')
      await test.add(worker, { text: 'two' }, {}, 'note.copy')
      assert.equal((await test.reaches('failed', 1)).error, 'Error: Two notes')
      await assert.rejects(
        test.add(worker, { text: '' }, {}, 'note.copy'),
        /^TypeError: job note.copy: the input is invalid: \/text /,
      )
    })

    it('lists and counts rows outside a transaction, and finds the same rows as inside one', async () => {
      const prices = collection({
        path: '/prices',
        noun: 'price',
        body: Type.Object({ amount: Decimal(10, 2), isShown: Type.Boolean(), tags: Type.Array(Line(1, 10)) }),
        filters: ['isShown'],
      })
      const found: unknown[] = []
      const compare = job('compare', {
        input: Type.Object({}),
        retries: 0,
        run: async (_, { list, count, insert, transaction }) => {
          await transaction(async (inside) => {
            for (let n = 0; n < 250; n++) {
              await inside.insert(prices, { amount: `${n}.50`, isShown: n % 2 === 0, tags: [`n${n}`] })
            }
          })
          const where = { isShown: true }
          const [listed, inside] = [
            await Array.fromAsync(list(prices, { where })),
            await transaction((context) => Array.fromAsync(context.list(prices, { where }))),
          ]
          assert.deepEqual(listed, inside)
          found.push(listed.length, listed[124]?.amount, listed[124]?.tags, await count(prices, where))
          found.push((await Array.fromAsync(list(prices, { where, limit: 3 }))).length)
          found.push((await Array.fromAsync(list(prices))).length)
          await assert.rejects(insert(prices, { amount: 'x', isShown: true, tags: [] }))
          await assert.rejects(Array.fromAsync(list(prices, { lock: true })), /lock: true needs a transaction/)
        },
      })
      let scans = 0
      const { db } = test
      const scan: typeof db.scan = (...given) => {
        scans++
        return db.scan(...given)
      }
      const definition = service({ resources: [prices], code: { compare } })
      const worker = await test.node(await jobsOf(test, definition, { db: { ...db, scan } }))
      await test.add(worker, {}, {}, 'compare')
      await test.until('ended', ({ status }) => status === 'completed' || status === 'failed')
      assert.deepEqual((await test.rows())[0]?.error ?? null, null)
      assert.deepEqual(found, [125, '248.50', ['n248'], 125, 3, 250])
      // Two pages, one count and one page of three rows. A page without a condition needs no scan.
      assert.equal(scans, 4)
    })
  })
})
