import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { plinth } from '../../../src/definition/plinth.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { report } from '../../../src/resources/reports/report.ts'
import { view } from '../../../src/resources/views/view.ts'
import { DefinitionError } from '../../../src/startup-errors.ts'
import { uuidSource } from '../../../src/storage/ids.ts'

const uuid = '019cc5a1-4c00-7a3e-9d52-6f1b8e0c4d27'
const countries = collection({ path: '/countries', noun: 'country', body: Type.Object({ name: Title }) })
const customers = collection({ path: '/customers', noun: 'customer', ids: 'uuid', body: Type.Object({ name: Title }) })
const body = Type.Object({
  name: Title,
  countryId: Ref(countries),
  customerId: Ref(customers),
  parentId: Type.Optional(Ref('self')),
})
const declared = { path: '/invoices', noun: 'invoice', ids: 'uuid', body } as const
const invoices = collection(declared)
const numbered = { path: '/notes', noun: 'note', body } as const

describe('the `ids` option', () => {
  it('is refused if it is neither integer nor uuid', () => {
    // @ts-expect-error an unknown type of ids
    const declare = () => collection({ ...numbered, ids: 'uuids', locked: { name: 'a' } })
    assert.throws(declare, new DefinitionError(["/notes: ids must be one of integer, uuid, not 'uuids'"]))
  })

  it('gives each reference the type of its target’s ids; required fields stay required', () => {
    const typesOf = ({ declaration }: typeof invoices | typeof countries) =>
      Object.fromEntries(Object.entries(declaration.kinds).filter(([field]) => field.endsWith('Id')))
    assert.deepEqual(typesOf(invoices), { countryId: 'reference', customerId: 'uuid', parentId: 'uuid' })
    const integers = collection(numbered) as unknown as typeof invoices
    assert.deepEqual(typesOf(integers), { countryId: 'reference', customerId: 'uuid', parentId: 'reference' })
    assert.deepEqual(invoices.declaration.body.required, ['name', 'countryId', 'customerId'])
    assert.equal(invoices.declaration.references.at(-1)?.table, 'resource_invoices')
  })

  it('cannot be uuid in a declaration with the `table` or `columns` option', () => {
    const refused = new DefinitionError([
      "/invoices: table and columns cannot be combined with ids: 'uuid'; use integer ids",
    ])
    assert.throws(() => collection({ ...declared, table: 'legacy_invoices' }), refused)
    assert.throws(() => collection({ ...declared, columns: { name: 'invoice_name' } }), refused)
  })

  it('rejects a conversion to a reference to UUIDs, and suggests filling a new field instead', () => {
    const migrate = { convert: { customerId: () => uuid } }
    assert.throws(
      () => collection({ ...declared, migrate }),
      /convert cannot include customerId: declare a reference with another name, and fill it$/,
    )
  })

  it('rejects a condition that compares an id with text that is not a UUID', () => {
    collection({ ...declared, locked: { id: uuid, parent: { id: uuid.toUpperCase() } } })
    const locked = { customerId: 'x', parentId: uuid.toUpperCase() }
    assert.throws(() => collection({ ...declared, locked }), /locked: customerId must be a UUID, not "x"$/)
  })
})

describe('uuidSource', () => {
  const digits = (id: string) => id.replaceAll('-', '')
  const time = (id: string) => Number.parseInt(digits(id).slice(0, 12), 16)
  const source = (times: number[], bytes: (size: number) => Buffer) =>
    uuidSource({ now: () => times.shift() as number, random: bytes })

  it('returns version 7 UUIDs in the variant of RFC 9562, with the given time and random bits', () => {
    const next = source([0x0190_1234_5678], (size) => Buffer.alloc(size, 0xff))
    assert.equal(next(), '01901234-5678-7fff-bfff-ffffffffffff')
    assert.equal(source([5.9], (size) => Buffer.alloc(size))(), '00000000-0005-7000-8000-000000000000')
  })

  it('returns increasing ids within one millisecond, after the clock is set back, and when the random bits overflow', () => {
    const fills = [0xff, 0xff, 0, 0x01, 0]
    const next = source([9, 9, 9, 3, 10], (size) => Buffer.alloc(size, fills.shift() ?? 0))
    const ids = [next(), next(), next(), next(), next()]
    assert.deepEqual(ids, ids.toSorted())
    assert.equal(new Set(ids).size, 5)
    assert.deepEqual(ids.map(time), [9, 10, 10, 10, 10])
    for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  })
})

/** Never called: TypeScript checks this code and reports every unused `@ts-expect-error`. */
export function typed() {
  collection({ ...declared, locked: { id: uuid, customerId: uuid, countryId: 7, parentId: uuid } })
  // @ts-expect-error the ids are text
  collection({ ...declared, locked: { id: 7 } })
  // @ts-expect-error a reference to a collection with UUIDs is text
  collection({ ...declared, locked: { customerId: 7 } })
  // @ts-expect-error a reference to a collection with integers is a number
  collection({ ...declared, locked: { countryId: uuid } })
  // @ts-expect-error a reference to the own collection has its type of ids
  collection({ ...declared, locked: { parentId: 7 } })
  collection({ ...numbered, locked: { id: 7, customerId: uuid, parentId: 7 } })
  // @ts-expect-error the ids are numbers by default
  collection({ ...numbered, locked: { id: uuid } })
  // @ts-expect-error a reference to the own collection has its type of ids
  collection({ ...numbered, locked: { parentId: uuid } })
  collection({ ...declared, access: () => ({ customer: { id: uuid }, country: { id: 7 }, parent: { id: uuid } }) })
  // @ts-expect-error the related row has a UUID
  collection({ ...declared, access: () => ({ customer: { id: 7 } }) })
  // @ts-expect-error the related row of the own collection has a UUID
  collection({ ...declared, access: () => ({ parent: { id: 7 } }) })
  collection({ ...declared, links: ({ id }) => ({ self: { href: id.toUpperCase() } }) })
  // @ts-expect-error the ids are numbers by default
  collection({ ...numbered, links: ({ id }) => ({ self: { href: id.toUpperCase() } }) })
  collection({ ...declared, hides: { fields: ['name'], unless: (_, id) => id.startsWith('0') } })
  collection({
    ...declared,
    defaults: { customerId: uuid, countryId: 7, parentId: () => uuid },
    rules: [
      { field: 'parentId', message: 'no', holds: ({ parentId, customerId }) => parentId?.at(0) === customerId.at(0) },
    ],
    derived: { short: { body: Type.String(), from: ({ id }) => id.slice(0, 8) } },
    computed: { isOwn: { when: { customerId: uuid } } },
    migrate: { fill: { customerId: ({ id }) => id.toLowerCase() } },
  })
  // @ts-expect-error a default has another type
  collection({ ...declared, defaults: { customerId: 7 } })
  // @ts-expect-error a computed condition compares with another type
  collection({ ...declared, computed: { isOwn: { when: { customerId: 7 } } } })
  // @ts-expect-error a report compares with another type
  report(invoices, { name: 'own', where: () => ({ customerId: 7 }) })
  report(invoices, { name: 'own', where: () => ({ id: uuid, parentId: uuid }) })
  view(invoices, { hide: ['customerId'], defaults: { customerId: uuid } })
  // @ts-expect-error the default of a view has another type
  view(invoices, { hide: ['customerId'], defaults: { customerId: 7 } })
  plinth({}).collection({ ...declared, access: ({ id }) => ({ createdBy: id, customerId: uuid }) })
  // @ts-expect-error the same for collections with claims
  plinth({}).collection({ ...declared, access: () => ({ customerId: 7 }) })
}
