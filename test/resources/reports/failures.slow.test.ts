import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { collection, service as define, report, Type } from '../../../src/plinth.ts'
import { appOn } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { attempt } from '../../support/report-files.ts'

const seats = collection({
  path: '/seats',
  noun: 'seat',
  body: Type.Object({ amount: Type.Integer(), weight: Type.Number() }),
})
const choice = Type.Object({ choice: Type.Optional(Type.String()) })
/** The result of the `where` function for each value of `choice`. All but the last are invalid conditions. */
const conditions: Record<string, unknown> = {
  ...{ nothing: undefined, empty: {}, text: 'amount', promise: Promise.resolve(true), unknown: { amonut: 1 } },
  ...{ wrong: { amount: 'many' }, none: { amount: null } },
}
const chosen = report(seats, {
  name: 'chosen',
  parameters: choice,
  where: ({ choice = '' }) => {
    if (choice === 'throws') throw new Error('no such choice')
    return conditions[choice] as never
  },
})
const sums = report(seats, { name: 'sums', show: { amount: { sum: 'amount' } } })
const weights = report(seats, { name: 'weights', show: { weight: { sum: 'weight' } } })
const definition = define({ resources: [seats], reports: [chosen, sums, weights] })
const scopes = 'seats:read seats:write reports:read reports:write'

forEachEngine((engine) => {
  describe('a typed report with a faulty condition or sum', () => {
    const service = appOn(engine, { prefixes: [''], definition })
    const at = { service, definition, scopes }
    before(async () => {
      for (const weight of [1e308, 1e308]) {
        const payload = { amount: Number.MAX_SAFE_INTEGER, weight }
        assert.equal((await service.send({ method: 'POST', url: '/seats', payload, scopes })).statusCode, 201)
      }
    })
    const request = (reportType: string, parameters: object, format = 'json') =>
      service.send({ method: 'POST', url: '/api/reports', payload: { reportType, format, parameters }, scopes })

    it('500 for a condition that throws or is invalid; the log names the report', async () => {
      for (const choice of ['nothing', 'empty', 'text', 'promise', 'unknown', 'wrong', 'throws']) {
        const response = await request('chosen', { choice })
        assert.equal(response.statusCode, 500, choice)
        const [fault, ...others] = service.faults.splice(0)
        assert.match(String(fault), /The condition of the report chosen failed/)
        assert.deepEqual(others, [])
      }
      const listed = await service.send({ url: '/api/reports', scopes })
      assert.deepEqual(listed.json(), [], 'no task was created')
    })

    it('completes with no rows if its condition compares with null', async () => {
      const { task } = await attempt(at, (await request('chosen', { choice: 'none' })).json().taskId)
      assert.deepEqual([task.status, task.rowCount], ['completed', 0])
    })

    it('fails the task immediately if its condition fails when the task runs', async () => {
      conditions.later = { amount: 1 }
      const { taskId } = (await request('chosen', { choice: 'later' })).json()
      conditions.later = { amonut: 1 }
      const { task, errors } = await attempt(at, taskId)
      assert.deepEqual(task.error, {
        ...{ errorCode: 'INTERNAL_ERROR', message: 'The condition of the report chosen failed' },
      })
      assert.match(String((errors[0] as Error).cause), /chosen/)
    })

    it("fails the task if the report's parameters have changed since the request", async () => {
      const { taskId } = (await request('chosen', { choice: 'none' })).json()
      const changed = report(seats, { name: 'chosen', parameters: Type.Object({ from: Type.Integer() }) })
      const { task } = await attempt({ ...at, definition: define({ resources: [seats], reports: [changed] }) }, taskId)
      assert.equal(task.error?.message, 'The report chosen now has other parameters: request it again')
    })

    it('fails the task and leaves no file if a sum exceeds the range of safe integers or of floats', async () => {
      const before = await service.results.keys()
      for (const name of ['sums', 'weights']) {
        for (const format of ['json', 'csv']) {
          const { task } = await attempt(at, (await request(name, {}, format)).json().taskId)
          assert.equal(task.status, 'failed')
          assert.deepEqual(task.error, {
            errorCode: 'VALIDATION_ERROR',
            message: 'A sum is too large for its column: narrow the report, or declare decimals',
          })
        }
      }
      assert.deepEqual(await service.results.keys(), before)
      assert.equal(await service.results.sweepTemporary(), 0)
    })

    it('409 for the download of a failed report', async () => {
      const { taskId } = (await request('sums', {})).json()
      await attempt(at, taskId)
      const file = await service.send({ url: `/api/reports/${taskId}/download`, scopes })
      assert.deepEqual([file.statusCode, file.json().errorCode], [409, 'TASK_FAILED'])
    })
  })
})
