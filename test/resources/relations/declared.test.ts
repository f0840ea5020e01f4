import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type TSchema, Type } from 'typebox'
import { service } from '../../../src/definition/service.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { relationsOf } from '../../../src/resources/relations/relations.ts'
import { DefinitionError } from '../../../src/startup-errors.ts'

const customers = collection({ path: '/customers', noun: 'customer', body: Type.Object({ name: Title }) })
const invoicesWith = (fields: Record<string, TSchema>) =>
  collection({ path: '/invoices', noun: 'invoice', body: Type.Object(fields) })
const errorOf = (declare: () => unknown): string => {
  try {
    declare()
  } catch (error) {
    assert.ok(error instanceof DefinitionError, String(error))
    return error.message
  }
  return assert.fail('it was accepted')
}
const other = undefined as unknown as typeof customers
const drop = { onDelete: 'drop' as 'cascade' }

describe('a declaration with references', () => {
  const refused: [what: string, fields: Record<string, TSchema>, message: RegExp][] = [
    [
      'an undefined collection',
      { customerId: Ref(other) },
      /^\/invoices: the field customerId refers to no collection: pass Ref\(\)/,
    ],
    [
      'an unknown value of onDelete',
      { customerId: Ref(customers, drop) },
      /onDelete .* must be one of restrict, cascade, setNull$/,
    ],
    [
      'a field name without Id',
      { customer: Ref(customers) },
      /the field customer is a reference: .* such as customerId$/,
    ],
    [
      'a relation with the name of another field',
      { customerId: Ref(customers), customer: Title },
      /customerId is the reference of 'customer', which is the name of another member: rename one$/,
    ],
    ['a relation with a reserved name', { viewId: Ref(customers) }, /viewId is the reference of 'view'/],
    [
      'setNull for a required field',
      { customerId: Ref(customers, { onDelete: 'setNull' }) },
      /customerId is required, so onDelete cannot be setNull: use Type\.Optional/,
    ],
    ['a required reference to itself', { parentId: Ref('self') }, /parentId is required .* no first row/],
    ['a reference in an array', { customers: Type.Array(Ref(customers)) }, /customers contains a reference/],
    [
      'a reference in an object',
      { place: Type.Object({ customerId: Ref(customers) }) },
      /place contains a reference: a reference must be a field of its own/,
    ],
  ]
  for (const [what, fields, message] of refused) {
    it(`is rejected for ${what}`, () =>
      assert.match(
        errorOf(() => invoicesWith(fields)),
        message,
      ))
  }

  it('is refused if the service does not list the other collection, or lists it later', () => {
    const invoices = invoicesWith({ customerId: Ref(customers) })
    assert.equal(
      errorOf(() => service({ resources: [invoices] })),
      'service: customerId of /invoices refers to /customers, which resources does not list: add it',
    )
    assert.equal(
      errorOf(() => service({ resources: [invoices, customers] })),
      'service: customerId of /invoices refers to /customers, which must come before it in resources',
    )
  })
})

describe('relations', () => {
  const of = (fields: Record<string, TSchema>, filters: string[] = []) => {
    const body = Type.Object(fields)
    const tickets = collection({ path: '/tickets', noun: 'ticket', body, filters })
    const comments = collection({
      path: '/ticket-comments',
      noun: 'comment',
      body: Type.Object({ ticketId: Ref(tickets), text: Title }),
    })
    return () => service({ resources: [tickets, comments] })
  }

  it('are refused if the other resource has a member with the same name', () => {
    assert.equal(
      errorOf(of({ name: Title, ticketComments: Type.Integer() })),
      "service: /ticket-comments refers to /tickets, which has a member 'ticketComments' already: rename it, or change the path /ticket-comments",
    )
  })

  it('are refused if a filterable field is named expand', () => {
    assert.equal(
      errorOf(of({ expand: Title }, ['expand'])),
      'service: /tickets defines the query parameter expand, which its relations need: rename the field',
    )
    of({ expand: Title })()
  })

  it('exclude hidden references, and lists that are unreadable or ambiguous', () => {
    const body = Type.Object({ customerId: Ref(customers), name: Title })
    const hidden = collection({
      ...{ path: '/hidden', noun: 'hidden', body },
      hides: { fields: ['customerId'], unless: () => false },
    })
    const written = collection({ path: '/written', noun: 'written', body, operations: ['create'] })
    const twice = collection({
      path: '/twice',
      noun: 'twice',
      body: Type.Object({ customerId: Ref(customers), payerId: Ref(customers) }),
    })
    const all = [customers, hidden, written, twice].map(({ declaration }) => declaration)
    const names = all.map((declaration) => relationsOf(declaration, all).map(({ name }) => name))
    assert.deepEqual(names, [[], [], ['customer'], ['customer', 'payer']])
  })
})

// Type-checked but never run: an invalid reference is a type error.
export const wrong = [
  // @ts-expect-error text other than 'self' instead of a collection
  () => Ref('customers'),
  // @ts-expect-error a path instead of a collection
  () => Ref('/customers'),
  // @ts-expect-error a body instead of a collection
  () => Ref(Type.Object({})),
  // @ts-expect-error an unknown rule for deletions
  () => Ref(customers, { onDelete: 'drop' }),
  // @ts-expect-error an unknown option
  () => Ref(customers, { ondelete: 'cascade' }),
  () =>
    collection({
      path: '/invoices',
      noun: 'invoice',
      body: Type.Object({ customerId: Ref(customers) }),
      // @ts-expect-error the field is named customerId
      filters: ['customer'],
    }),
]

/** The type of a reference includes its collection, with the fields of that collection. */
type Referred = ReturnType<typeof Ref<typeof customers>>['~reference']['to']
export const body: Referred['declaration']['body'] = customers.declaration.body
// @ts-expect-error an unknown field of the customer
export const unknownField = body.properties.title
