import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type TSchema, Type } from 'typebox'
import { service } from '../../../src/definition/service.ts'
import { storedDefinition } from '../../../src/definition/stored.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import type { Declaration } from '../../../src/resources/declaration.ts'
import type { ResourceOptions } from '../../../src/resources/resource-options.ts'
import { resourceRows } from '../../../src/resources/resource-rows.ts'
import type { Database } from '../../../src/storage/database.ts'
import { migrateThoroughly } from '../../../src/storage/migrate-thoroughly.ts'
import type { Rows } from '../../../src/storage/rows/rows.ts'
import { forEachEngine } from '../../support/engines.ts'

/** Set SEED to reproduce a failed run. */
const seed = Number(process.env.SEED ?? 20_261_123)
const now = '2026-03-01T12:00:00.000Z'

/** The kinds of values, each with conversions from and to a number. */
const kinds = {
  text: {
    schema: () => Line(1, 40),
    from: (n: number) => `Ä ${n}`,
    to: (value: never) => Number(String(value).slice(2)),
  },
  integer: { schema: () => Type.Integer(), from: (n: number) => n, to: Number },
  number: { schema: () => Type.Number(), from: (n: number) => n / 4, to: (value: never) => Number(value) * 4 },
  decimal: {
    schema: () => Decimal(18, 3),
    from: (n: number) => `${n}.250`,
    to: (value: never) => Math.trunc(Number(value)),
  },
  boolean: { schema: () => Type.Boolean(), from: (n: number) => n > 2, to: Number },
  list: {
    schema: () => Type.Array(Type.Integer()),
    from: (n: number) => [n, n],
    to: (value: never) => Number(value[0]),
  },
} as const
type Kind = keyof typeof kinds
const kindOf = fc.constantFrom(...(Object.keys(kinds) as Kind[]))

interface Field {
  kind: Kind
  isOptional: boolean
  isFilter: boolean
}
interface ModelRow {
  revision: number
  values: Record<string, unknown>
}

/** A release: what it does with each existing field, and the fields that it adds. */
const release = fc.record({
  changes: fc.array(fc.constantFrom('keep', 'keep', 'rename', 'convert', 'drop', 'index'), {
    minLength: 8,
    maxLength: 8,
  }),
  convertedTo: fc.array(kindOf, { minLength: 8, maxLength: 8 }),
  added: fc.array(
    fc.record({
      kind: kindOf,
      isOptional: fc.boolean(),
      isFilter: fc.boolean(),
      fill: fc.constantFrom('constant', 'function'),
    }),
    { maxLength: 2 },
  ),
  tidy: fc.boolean(),
  isInterrupted: fc.boolean(),
})
type Release = typeof release extends fc.Arbitrary<infer R> ? R : never

/** The model of a table: its fields and rows. */
interface Model {
  fields: Map<string, Field>
  rows: ModelRow[]
  names: number
}

/** Applies a release to the model and returns the equivalent `migrate` option. */
function released(model: Model, { changes, convertedTo, added }: Release): NonNullable<ResourceOptions['migrate']> {
  const [renamed, fill, convert]: Record<string, unknown>[] = [{}, {}, {}]
  const fields = new Map<string, Field>()
  const newName = () => (model.names++ % 2 === 0 ? `field${model.names}` : `someField${model.names}`)
  const each = (change: (row: ModelRow) => void) => model.rows.forEach(change)
  for (const [at, [name, field]] of [...model.fields].entries()) {
    const change = changes[at] ?? 'keep'
    const to = convertedTo[at] ?? field.kind
    if (change === 'drop' && model.fields.size > 1 && at > 0) continue
    if (change === 'rename') {
      const renamedTo = newName()
      fields.set(renamedTo, field)
      Object.assign(renamed as object, { [renamedTo]: name })
      each(({ values }) => Object.assign(values, { [renamedTo]: values[name] }))
    } else if (change === 'convert' && to !== field.kind) {
      const run = (old: never) => kinds[to].from(kinds[field.kind].to(old))
      fields.set(name, { ...field, kind: to, isFilter: field.isFilter && to !== 'list' })
      Object.assign(convert as object, { [name]: run })
      each((row) => {
        if (row.values[name] === null) return
        row.values[name] = run(row.values[name] as never)
        row.revision++
      })
    } else fields.set(name, change === 'index' && field.kind !== 'list' ? { ...field, isFilter: true } : field)
  }
  for (const { fill: how, ...field } of added) {
    const name = newName()
    fields.set(name, { ...field, isFilter: field.isFilter && field.kind !== 'list' })
    const { from } = kinds[field.kind]
    Object.assign(fill as object, { [name]: how === 'constant' ? from(7) : (row: { id: number }) => from(row.id) })
    each((row) => {
      row.values[name] = from(how === 'constant' ? 7 : model.rows.indexOf(row) + 1)
      if (how === 'function') row.revision++
    })
  }
  model.fields = fields
  return { renamed, fill, convert } as NonNullable<ResourceOptions['migrate']>
}

function definitionOf({ fields }: Model, migrate?: ResourceOptions['migrate']) {
  const body = Type.Object(
    Object.fromEntries(
      [...fields].map(([name, { kind, isOptional }]): [string, TSchema] => {
        const schema = kinds[kind].schema()
        return [name, isOptional ? Type.Optional(schema) : schema]
      }),
    ),
  )
  const filters = [...fields].filter(([, { isFilter }]) => isFilter).map(([name]) => name)
  return service({
    resources: [collection({ path: '/things', noun: 'thing', body, filters, ...(migrate && { migrate }) } as never)],
  })
}

async function rowsIn(db: Database, definition: ReturnType<typeof definitionOf>): Promise<Rows> {
  const [stored] = (await storedDefinition(db.read, definition)).collections
  return resourceRows(db, stored?.declaration as Declaration)
}

/** Adds a row and updates the first row, in both the table and the model. */
async function write(db: Database, rows: Rows, model: Model, n: number): Promise<void> {
  const valuesFor = (of: number) =>
    Object.fromEntries(
      [...model.fields].map(([name, { kind, isOptional }]) => [
        name,
        isOptional && of % 2 ? null : kinds[kind].from(of),
      ]),
    )
  await db.write((tx) => rows.insert(tx, valuesFor(n), now))
  model.rows.push({ revision: 1, values: valuesFor(n) })
  await db.write((tx) => rows.update(tx, 1, valuesFor(n + 1), {}, now))
  Object.assign(model.rows[0] as ModelRow, { revision: (model.rows[0]?.revision ?? 0) + 1, values: valuesFor(n + 1) })
}

forEachEngine((engine) => {
  describe('random releases', () => {
    it(`leave the same rows as a naive in-memory model (SEED=${seed})`, { timeout: 120_000 }, async () => {
      const property = fc.asyncProperty(fc.array(release, { minLength: 1, maxLength: 5 }), async (releases) => {
        const db = await engine.database()
        const model: Model = {
          fields: new Map([['title', { kind: 'text', isOptional: false, isFilter: true }]]),
          rows: [],
          names: 0,
        }
        try {
          for (const [at, next] of [undefined, ...releases].entries()) {
            const definition = definitionOf(model, next && released(model, next))
            let stops = next?.isInterrupted ? 1 : 0
            const run = () =>
              migrateThoroughly(db, {
                ...{
                  tables: definition.tables,
                  tidy: next?.tidy ?? false,
                  allowDataLoss: true,
                  exclude: async () => () => {},
                },
                onProgress: ({ rows }) => {
                  if (rows > 0 && stops-- > 0) throw new Error('interrupted')
                },
              })
            await run().catch((error) => {
              if (error.message !== 'interrupted') throw error
              return run()
            })
            await dropOld(db)
            const rows = await rowsIn(db, definitionOf(model))
            await write(db, rows, model, at * 3)
            for (const [index, { revision, values }] of model.rows.entries()) {
              const row = await rows.find(index + 1)
              const fields = Object.fromEntries([...model.fields.keys()].map((name) => [name, row?.[name] ?? null]))
              const expected = Object.fromEntries([...model.fields.keys()].map((name) => [name, values[name] ?? null]))
              assert.deepEqual([row?.revision, fields], [revision, expected])
            }
          }
        } finally {
          await db.close()
        }
      })
      await fc.assert(property, { seed, numRuns: engine.name === 'sqlite' ? 30 : 4 })
    })
  })
})

/** Drops the `_old` columns, as an operator must before converting the same field again. */
async function dropOld(db: Database): Promise<void> {
  const { sql } = await import('kysely')
  const { rows } = await db.write((tx) => db.engine.columnsOf('resource_things').execute(tx))
  for (const { name } of rows.filter((column) => column.name.endsWith('_old'))) {
    await db.write((tx) => sql.raw(`alter table resource_things drop column "${name}"`).execute(tx))
  }
}
