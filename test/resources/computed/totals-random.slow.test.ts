import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { appOn } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, scopes } from './service.ts'

/** Set SEED to reproduce a failed run. */
const seed = Number(process.env.SEED ?? 20_261_122)
const runs = 12

interface Line {
  invoiceId: number | null
  goodId: number | null
  cents: number
  units: number | null
}

const pick = fc.nat(99)
const cents = fc.integer({ min: -400_000, max: 400_000 })
const units = fc.option(fc.integer({ min: -50, max: 50 }))
const target = fc.option(pick, { freq: 5 })
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('create' as const), at: target, good: target, cents, units }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('replace' as const), line: pick, at: target, cents, units }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('move' as const), line: pick, at: target }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('amount' as const), line: pick, cents }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('delete' as const), line: pick }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete good' as const), at: pick }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete invoice' as const), at: pick }) },
)

const text = (value: number) =>
  `${value < 0 ? '-' : ''}${Math.floor(Math.abs(value) / 100)}.${String(Math.abs(value) % 100).padStart(2, '0')}`

forEachEngine((engine) => {
  describe(`random writes to summed rows (SEED=${seed})`, () => {
    const service = appOn(engine, { prefixes: [''], definition })
    const send = async (method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', url: string, payload?: object) => {
      const answer = await service.send({ scopes, method, url, ...(payload && { payload }) })
      return { status: answer.statusCode, body: answer.body === '' ? undefined : answer.json() }
    }
    const bodyOf = ({ invoiceId, goodId, cents, units }: Line) => ({
      ...{ text: 'Work', amount: text(cents) },
      ...(invoiceId !== null && { invoiceId }),
      ...(goodId !== null && { goodId }),
      ...(units !== null && { units }),
    })
    const some = <T>(values: readonly T[], at: number | null): T | null =>
      at === null || values.length === 0 ? null : (values[at % values.length] as T)

    /** Creates invoices and goods. Returns the model: the lines by id, and the ids of the invoices and goods. */
    const start = async () => {
      const make = async (url: string, payload: object) => Number((await send('POST', url, payload)).body.id)
      const invoices = [1, 2, 3, 4].map(() => make('/invoices', { title: 'A', status: 'draft' }))
      const goods = [1, 2].map(() => make('/goods', { name: 'Desk' }))
      return { lines: new Map<number, Line>(), invoices: await Promise.all(invoices), goods: await Promise.all(goods) }
    }
    type Model = Awaited<ReturnType<typeof start>>

    const sumsOf = ({ lines }: Model, invoice: number) => {
      const own = [...lines.values()].filter(({ invoiceId }) => invoiceId === invoice)
      return {
        total: own.reduce((sum, { cents }) => sum + cents, 0),
        lineCount: own.length,
        units: own.reduce((sum, { units }) => sum + (units ?? 0), 0),
      }
    }
    const fits = (model: Model) => model.invoices.every((id) => Math.abs(sumsOf(model, id).total) <= 999_999)

    /**
     * Returns the model after changes to lines. If a sum would be too large, returns the same model, because the
     * service refuses such changes.
     */
    const changed = (model: Model, lines: Map<number, Line>): { model: Model; isRefused: boolean } => {
      const next = { ...model, lines }
      return fits(next) ? { model: next, isRefused: false } : { model, isRefused: true }
    }

    const apply = async (
      model: Model,
      action: typeof step extends fc.Arbitrary<infer S> ? S : never,
    ): Promise<Model> => {
      if (action.do === 'delete good' || action.do === 'delete invoice') {
        const [field, path] =
          action.do === 'delete good' ? (['goodId', 'goods'] as const) : (['invoiceId', 'invoices'] as const)
        const id = some(model[path], action.at)
        if (id === null) return model
        const rest = { ...model, [path]: model[path].filter((one) => one !== id) }
        const kept = new Map([...model.lines].filter(([, line]) => line[field] !== id))
        const { model: next, isRefused } = changed(rest, kept)
        assert.equal((await send('DELETE', `/${path}/${id}`)).status, isRefused ? 422 : 204)
        return isRefused ? model : next
      }
      if (action.do === 'create') {
        const { cents, units } = action
        const line = {
          invoiceId: some(model.invoices, action.at),
          goodId: some(model.goods, action.good),
          cents,
          units,
        }
        const { isRefused } = changed(model, new Map([...model.lines, [0, line]]))
        const answer = await send('POST', '/lines', bodyOf(line))
        assert.equal(answer.status, isRefused ? 422 : 201)
        return isRefused ? model : { ...model, lines: new Map([...model.lines, [answer.body.id, line]]) }
      }
      const entry = some([...model.lines], action.line)
      if (entry === null) return model
      const [id, before] = entry
      if (action.do === 'delete') {
        const { model: next, isRefused } = changed(model, new Map([...model.lines].filter(([one]) => one !== id)))
        assert.equal((await send('DELETE', `/lines/${id}`)).status, isRefused ? 422 : 204)
        return next
      }
      const line = { ...before }
      if ('cents' in action) line.cents = action.cents
      if ('units' in action) line.units = action.units
      if ('at' in action) line.invoiceId = some(model.invoices, action.at)
      const { model: next, isRefused } = changed(model, new Map([...model.lines, [id, line]]))
      const patch = action.do === 'move' ? { invoiceId: line.invoiceId } : { amount: text(line.cents) }
      const answer =
        action.do === 'replace'
          ? await send('PUT', `/lines/${id}`, bodyOf(line))
          : await send('PATCH', `/lines/${id}`, patch)
      assert.equal(answer.status, isRefused ? 422 : 200, JSON.stringify(answer.body))
      return next
    }

    it('result in the same sums as a naive model; 422 for a write that would make a sum too large', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
          let model = await start()
          for (const action of steps) model = await apply(model, action)
          for (const id of model.invoices) {
            const { body } = await send('GET', `/invoices/${id}`)
            const { total, ...others } = sumsOf(model, id)
            assert.deepEqual(
              { total: body.total, lineCount: body.lineCount, units: body.units },
              { total: text(total), ...others },
            )
          }
        }),
        { seed, numRuns: runs },
      )
    })
  })
})
