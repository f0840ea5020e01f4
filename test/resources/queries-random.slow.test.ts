import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import fc from 'fast-check'
import { Type } from 'typebox'
import { service as define } from '../../src/definition/service.ts'
import { Line } from '../../src/http/text-rules.ts'
import { collection } from '../../src/resources/collection.ts'
import { matchesCondition } from '../../src/resources/conditions/conditions.ts'
import { conditionFields } from '../../src/resources/conditions/fields.ts'
import { Decimal } from '../../src/resources/decimal-fields.ts'
import { Day, Instant } from '../../src/resources/field-types.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

/** SEED reproduces a failed run; RUNS is the number of cases. */
const seed = Number(process.env.SEED ?? 20_261_122)
const runs = Number(process.env.RUNS ?? 120)

const things = collection({
  path: '/things',
  noun: 'thing',
  body: Type.Object({
    title: Line(1, 40),
    topic: Type.Optional(Line(0, 40)),
    state: Type.Enum(['draft', 'sent', 'paid']),
    level: Type.Optional(Type.Integer()),
    weight: Type.Optional(Type.Number()),
    total: Type.Optional(Decimal(18, 2)),
    isOpen: Type.Optional(Type.Boolean()),
    due: Type.Optional(Day),
    startsAt: Type.Optional(Instant),
  }),
  filters: ['title', 'topic', 'state', 'isOpen', 'level'],
  ranges: ['weight', 'total', 'due', 'startsAt'],
  search: ['title'],
  sorts: ['topic'],
})
const definition = define({ resources: [things] })
const scopes = 'things:read things:write'
const fields = conditionFields(things.declaration, 'folded')

const texts = [
  'a',
  'A',
  'ab',
  'É',
  'e\u0301x',
  '%',
  '@',
  'Z',
  '"',
  'a,b',
  'ﬁn',
  'fin',
  '𝒜',
  '\u{10ffff}',
  '\ud7ff',
  '\ue000z',
]
const pools: Record<string, readonly unknown[]> = {
  title: texts,
  topic: [...texts, ''],
  state: ['draft', 'sent', 'paid'],
  level: [0, -1, 2, 9_007_199_254_740_991],
  total: ['0.00', '-0.05', '10.50', '9999999999999999.99', '9999999999999999.98'],
  weight: [0, 0.1, 1.5, 1e21],
  isOpen: [true, false],
  due: ['2026-02-28', '2026-03-01', '2026-03-02'],
  startsAt: ['2026-03-01T00:00:00.000Z', '2026-03-01T12:00:00.001Z'],
}
const names = Object.keys(pools)
const sampleOf = (field: string) => fc.constantFrom(...(pools[field] ?? []))
const body = fc.record({ title: sampleOf('title'), state: sampleOf('state') }).chain((required) => {
  const optional = names.filter((name) => !(name in required))
  const others = fc.record(Object.fromEntries(optional.map((name) => [name, sampleOf(name)])), { requiredKeys: [] })
  return others.map((more) => ({ ...more, ...required }))
})

/** A comparison that can be written both as a condition and as query text. */
interface Compared {
  field: string
  operator: string
  operand: unknown
}
const compared = fc.constantFrom(...names).chain((field): fc.Arbitrary<Compared> => {
  const operators = [
    ...['=', 'in', 'not'],
    ...(field === 'title' || field === 'state' ? [] : ['null']),
    ...(field === 'title' || field === 'topic' ? ['prefix'] : []),
    ...(['level', 'weight', 'total', 'due', 'startsAt'].includes(field) ? ['from', 'to', 'before', 'after'] : []),
  ]
  return fc.constantFrom(...operators).chain((operator) => {
    const operand = operator === 'null' ? fc.boolean() : sampleOf(field)
    const operands = operator === 'in' ? fc.array(sampleOf(field), { maxLength: 3 }) : operand
    return operands.map((one) => ({ field, operator, operand: one }))
  })
})
const query = fc.record({
  together: fc.uniqueArray(compared, { maxLength: 3, selector: ({ field, operator }) => `${field} ${operator}` }),
  either: fc.array(
    compared.filter(({ operator }) => operator !== 'in'),
    { maxLength: 3 },
  ),
  sort: fc.constantFrom('', '&sort=-id', '&sort=topic', '&sort=-state,topic', '&sort=title'),
  limit: fc.integer({ min: 3, max: 40 }),
})

const quoted = (value: unknown) => `"${String(value).replaceAll('"', '""')}"`
const conditionOf = ({ field, operator, operand }: Compared) => ({
  [field]: operator === '=' ? operand : { [operator]: operand },
})
function parameterOf({ field, operator, operand }: Compared): string {
  if (operator === '=') return `${field}[in]=${encodeURIComponent(quoted(operand))}`
  const text = operator === 'in' ? (operand as unknown[]).map(quoted).join() : String(operand)
  return `${field}[${operator}]=${encodeURIComponent(text)}`
}
const alternativeOf = ({ field, operator, operand }: Compared) =>
  `${field}${operator === '=' ? '' : `[${operator}]`}:${quoted(operand)}`

forEachEngine((engine) => {
  describe(`random queries (SEED=${seed})`, () => {
    const service = appOn(engine, { definition })
    const rows: Record<string, unknown>[] = []
    before(async () => {
      for (const payload of fc.sample(body, { seed, numRuns: 50 })) {
        const answer = await service.send({ method: 'POST', url: '/things', payload, scopes })
        assert.equal(answer.statusCode, 201, answer.body)
        rows.push(answer.json())
      }
    })

    it('200 with the same rows and count as an in-memory filter, over all pages', async () => {
      let matched = 0
      await fc.assert(
        fc.asyncProperty(query, async ({ together, either, sort, limit }) => {
          const isSame = (one: Compared, other: Compared) =>
            parameterOf(one).split('=')[0] === parameterOf(other).split('=')[0]
          fc.pre(together.every((one, at) => together.findIndex((other) => isSame(one, other)) === at))
          const conditions = [
            ...together.map(conditionOf),
            ...(either.length > 0 ? [{ any: either.map(conditionOf) }] : []),
          ]
          const meets = (row: Record<string, unknown>) =>
            conditions.every((one) => matchesCondition(one, row, { fields }))
          const meant = rows.filter(meets).map(({ id }) => id)
          const or = either.length > 0 ? [`or=${encodeURIComponent(either.map(alternativeOf).join())}`] : []
          const parameters = [...together.map(parameterOf), ...or, `limit=${limit}`].join('&')
          const seen: unknown[] = []
          for (let url: string | null = `/v2/things?${parameters}${sort}`; url !== null; ) {
            const answer = await service.send({ url, scopes, headers: { prefer: 'count=exact' } })
            assert.equal(answer.statusCode, 200, `${url} ${answer.body}`)
            assert.equal(answer.headers['x-total-count'], String(meant.length))
            seen.push(...answer.json().items.map(({ id }: { id: number }) => id))
            url = answer.json().next ?? null
          }
          assert.deepEqual(seen.toSorted(), meant.toSorted())
          matched += meant.length
        }),
        { seed, numRuns: runs },
      )
      assert.ok(matched > runs, `only ${matched} matches`)
    })
  })
})
