import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import { sql } from 'kysely'
import { type TSchema, Type } from 'typebox'
import { service } from '../../src/definition/service.ts'
import { collection } from '../../src/resources/collection.ts'
import { columnType } from '../../src/resources/column-types.ts'
import { conditionSql, conditionTest, rowPasses } from '../../src/resources/conditions/conditions.ts'
import { conditionFields, type TextComparison } from '../../src/resources/conditions/fields.ts'
import { Decimal } from '../../src/resources/decimal-fields.ts'
import { Day, Instant, Text, Title, Url } from '../../src/resources/field-types.ts'
import type { Database } from '../../src/storage/database.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { caseFold } from '../../src/storage/rows/page-query.ts'
import { type Row, rowsOf } from '../../src/storage/rows/rows.ts'
import { forEachEngine } from '../support/engines.ts'

/** SEED reproduces a failed run; RUNS is the number of conditions. */
const seed = Number(process.env.SEED ?? 20_261_122)
const runs = Number(process.env.RUNS ?? 400)

const things = collection({
  path: '/things',
  noun: 'thing',
  body: Type.Object({
    title: Title,
    name: Type.Optional(Title),
    note: Type.Optional(Text()),
    state: Type.Optional(Type.Enum(['draft', 'Sent', 'paid'])),
    level: Type.Optional(Type.Integer()),
    weight: Type.Optional(Type.Number()),
    total: Type.Optional(Decimal(18, 2)),
    isOpen: Type.Optional(Type.Boolean()),
    due: Type.Optional(Day),
    startsAt: Type.Optional(Instant),
    page: Type.Optional(Url),
    place: Type.Optional(Type.Object({ city: Type.String() })),
  }),
  filters: ['title', 'name', 'state', 'isOpen', 'page'],
  ranges: ['level', 'weight', 'due', 'startsAt'],
  sorts: ['title', 'name'],
})
const { declaration } = things
const { tables } = service({ resources: [things] })
const today = () => '2026-03-01'

const texts = [
  '',
  'a',
  'A',
  'ab',
  'É',
  'é',
  'e\u0301x',
  '%',
  '_a',
  'ﬁn',
  'fin',
  'İ',
  '𝒜',
  '𝒜b',
  '\u{10ffff}',
  '\ud7ff',
  '\ue000z',
]
const hostile = ['a\0', '\ud800', "'; --"]
const pools: Record<string, readonly unknown[]> = {
  title: texts,
  name: texts,
  note: texts,
  state: ['draft', 'Sent', 'paid'],
  level: [0, -1, 1, 2, 9_007_199_254_740_991, -9_007_199_254_740_991],
  total: ['0.00', '-0.05', '10.50', '9999999999999999.99', '-9999999999999999.99'],
  weight: [0, -0, 0.1, 1.5, 1e21, -1e-7, 5e-324],
  isOpen: [true, false],
  due: ['2026-02-28', '2026-03-01', '2026-03-02', '0001-01-01'],
  startsAt: ['2026-03-01T00:00:00.000Z', '2026-03-01T12:00:00.001Z', '2025-12-31T23:59:59.999Z'],
  page: ['https://a.example/', 'https://A.example/', 'https://a.example/b'],
  id: [1, 2, 3, 40, 0, -5, 3_000_000_000, 9_007_199_254_740_991],
  createdAt: ['2026-01-01T00:00:00.000Z', '2027-01-01T00:00:00Z', '2026-01-01T01:00:00+01:00'],
}
const operands: Record<string, readonly unknown[]> = {
  ...pools,
  ...Object.fromEntries(
    ['title', 'name', 'note', 'page'].map((field) => [field, [...(pools[field] ?? []), ...hostile]]),
  ),
  total: [...(pools.total ?? []), '0', '-0', '10.5', 10.5, -0.05, '9999999999999999.98'],
  due: [...(pools.due ?? []), 'today'],
  startsAt: [...(pools.startsAt ?? []), '2026-03-01', '2026-03-01T13:00:00.001+01:00'],
}
const absent = [null, undefined]
const value = (field: string) =>
  fc.oneof({ weight: 12, arbitrary: fc.constantFrom(...(operands[field] ?? [])) }, fc.constantFrom(...absent))

const ordered = ['level', 'weight', 'total', 'due', 'startsAt', 'id', 'createdAt']
const starting = ['title', 'name', 'note', 'page']
function operators(field: string): fc.Arbitrary<object> {
  const one = value(field)
  const order = { from: one, to: one, before: one, after: one }
  const model = {
    ...{
      in: fc.oneof({ weight: 9, arbitrary: fc.array(one, { maxLength: 4 }) }, fc.constantFrom(...absent)),
      not: one,
    },
    null: fc.constantFrom<unknown>(true, false, true, false, null),
    ...(ordered.includes(field) && order),
    ...(starting.includes(field) && { prefix: one }),
  }
  return fc.record(model, { requiredKeys: [] }).filter((record) => Object.keys(record).length > 0)
}
const comparison = fc
  .constantFrom(...Object.keys(pools))
  .chain((field) => fc.oneof(value(field), operators(field)).map((compared) => ({ [field]: compared })))
const presence = fc.boolean().map((isAbsent) => ({ place: { null: isAbsent } }))
const { condition } = fc.letrec<{ condition: object; list: object[] }>((tie) => ({
  condition: fc.oneof(
    { maxDepth: 3 },
    { weight: 6, arbitrary: comparison },
    { weight: 1, arbitrary: presence },
    { weight: 2, arbitrary: fc.tuple(comparison, comparison).map(([one, other]) => ({ ...one, ...other })) },
    { weight: 3, arbitrary: tie('list').map((any) => ({ any })) },
    {
      weight: 3,
      arbitrary: fc.tuple(tie('list'), tie('condition')).map(([all, one]) => ({ ...one, all: [...all, one] })),
    },
  ),
  list: fc.array(tie('condition'), { maxLength: 3 }),
}))

const optional = (field: string) => fc.oneof(fc.constantFrom(...(pools[field] ?? [])), fc.constant(undefined))
const body = fc.record({
  title: fc.constantFrom(...texts.slice(1)),
  ...Object.fromEntries(
    Object.keys(declaration.kinds)
      .filter((field) => field !== 'title' && field in pools)
      .map((field) => [field, optional(field)]),
  ),
  place: fc.constantFrom(undefined, { city: 'Ulm' }),
})

type Values = Record<string, unknown>

const cents = (text: string) =>
  BigInt((text.includes('.') ? text : `${text}.`).replace(/\.(.*)$/, (_, digits) => digits.padEnd(2, '0')))

/** An independent, simple implementation of conditions. */
function means(wanted: Values, row: Values, text: TextComparison): boolean {
  return Object.entries(wanted).every(([name, compared]) => {
    if (name === 'any') return (compared as Values[]).some((one) => means(one, row, text))
    if (name === 'all') return (compared as Values[]).every((one) => means(one, row, text))
    if (compared === null || compared === undefined) return false
    const tests = typeof compared === 'object' ? Object.entries(compared) : [['=', compared] as const]
    const normal = (one: unknown) => {
      if (name === 'startsAt' || name === 'createdAt') return Date.parse(String(one))
      if (name === 'total') return cents(String(one))
      if (name === 'due') return one === 'today' ? today() : one
      const isFolded = text === 'folded' && (name === 'title' || name === 'name')
      return isFolded && typeof one === 'string' ? caseFold(one) : one
    }
    return tests.every(([operator, operand]) => holds(operator, row[name], operand, normal))
  })
}

function holds(operator: string, own: unknown, operand: unknown, normal: (value: unknown) => unknown): boolean {
  if (operand === null || operand === undefined) return false
  const isAbsent = own === null || own === undefined
  if (operator === 'null') return isAbsent === operand
  if (operator === 'not') return isAbsent || normal(own) !== normal(operand)
  if (isAbsent) return false
  const mine = normal(own) as number
  if (operator === 'in')
    return (operand as unknown[]).some((one) => one !== null && one !== undefined && mine === normal(one))
  const theirs = normal(operand) as number
  if (operator === '=') return mine === theirs
  if (operator === 'prefix')
    return String(mine).startsWith(String(theirs)) && !hostile.slice(0, 2).includes(String(operand))
  if (operator === 'from') return mine >= theirs
  if (operator === 'to') return mine <= theirs
  return operator === 'before' ? mine < theirs : mine > theirs
}

forEachEngine((engine) => {
  describe(`conditions (SEED=${seed})`, () => {
    let db: Database
    let rows: Row[]

    before(async () => {
      db = await engine.database()
      await migrate(db, { tables })
      const codecs = Object.entries(declaration.kinds).flatMap(([field, kind]) => {
        const { codec } = columnType(kind)
        const schema = (declaration.body.properties as Record<string, TSchema>)[field] as TSchema
        return codec ? [[field, typeof codec === 'function' ? codec(schema) : codec] as const] : []
      })
      const { table, folded, blank, kinds } = declaration
      const store = rowsOf(db, { table, fields: Object.keys(kinds), folded, blank, codecs: Object.fromEntries(codecs) })
      const samples = fc.sample(body, { seed, numRuns: 60 })
      rows = await db.write(async (tx) => {
        const inserted: Row[] = []
        for (const sample of samples) {
          const values = Object.fromEntries(
            Object.keys(kinds).map((field) => [field, (sample as Values)[field] ?? null]),
          )
          const at = inserted.length < 30 ? '2026-01-01T00:00:00.000Z' : '2026-06-01T00:00:00.000Z'
          inserted.push((await store.insert(tx, values, at)).row)
        }
        return inserted
      })
    })
    after(() => db.close())

    for (const text of ['letters', 'folded'] as const) {
      it(`match the same rows in SQL and in memory as in a simple model (text comparison: ${text})`, async () => {
        const fields = conditionFields(declaration, text)
        let matched = 0
        await fc.assert(
          fc.asyncProperty(condition, async (wanted) => {
            const where = conditionSql(wanted, { fields, today, table: 't' })
            const from = sql`${sql.table(declaration.table)} as t`
            const found = await sql<{ id: number }>`select t.id from ${from} where ${where} order by t.id`.execute(
              db.read,
            )
            const ids = found.rows.map(({ id }) => id)
            const test = conditionTest(wanted, { fields, today })
            const inMemory = rows.filter((row) => rowPasses(test, row, { fields })).map(({ id }) => id)
            const meant = rows.filter((row) => means(wanted as Values, row, text)).map(({ id }) => id)
            assert.deepEqual(inMemory, meant)
            assert.deepEqual(ids, meant)
            matched += ids.length
          }),
          { seed, numRuns: runs },
        )
        assert.ok(matched > runs, `only ${matched} matches`)
      })
    }

    it('match the same number of rows in UPDATE and DELETE statements as in memory', async () => {
      const fields = conditionFields(declaration, 'letters')
      const where = conditionSql({ level: { from: 0 } }, { fields, today, table: declaration.table })
      const meant = rows.filter(({ level }) => typeof level === 'number' && level >= 0).length
      const undo = new Error('undo')
      const changing = db.write(async (tx) => {
        const updated =
          await sql`update ${sql.table(declaration.table)} set revision = revision where ${where}`.execute(tx)
        const deleted = await sql`delete from ${sql.table(declaration.table)} where ${where}`.execute(tx)
        assert.deepEqual([Number(updated.numAffectedRows), Number(deleted.numAffectedRows)], [meant, meant])
        throw undo
      })
      await assert.rejects(changing, undo)
    })
  })
})
