import { Type } from 'typebox'
import { plinth } from '../../../src/definition/plinth.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import { Day, Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { report } from '../../../src/resources/reports/report.ts'
import { view } from '../../../src/resources/views/view.ts'

/** Rows with integer ids, to which rows with UUIDs refer. */
export const countries = collection({
  path: '/countries',
  noun: 'country',
  body: Type.Object({ name: Title }),
})

/** Rows with UUIDs, to which rows with UUIDs and rows with integer ids refer. */
export const customers = collection({
  path: '/customers',
  noun: 'customer',
  ids: 'uuid',
  body: Type.Object({
    name: Title,
    countryId: Type.Optional(Ref(countries)),
    parentId: Type.Optional(Ref('self', { onDelete: 'setNull' })),
  }),
  filters: ['name', 'countryId', 'parentId'],
  search: ['name'],
  sorts: ['name'],
  computed: {
    invoiceCount: { count: 'invoices' },
    invoiced: { sum: 'invoices.total', as: Decimal(12, 2) },
  },
  links: ({ id }) => ({ self: { href: `/customers/${id.toUpperCase()}` } }),
})

export const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  ids: 'uuid',
  body: Type.Object({
    reference: Line(1, 20),
    customerId: Ref(customers),
    total: Decimal(8, 2),
    due: Type.Optional(Day),
  }),
  filters: ['customerId', 'reference'],
  sorts: ['reference', 'customerId'],
  unique: [['customerId', 'reference']],
})

/** Rows with integer ids that refer to rows with UUIDs. */
export const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), text: Title }),
  filters: ['invoiceId'],
})

export const byCustomer = report(invoices, {
  name: 'by-customer',
  parameters: Type.Object({ customerId: Type.Optional(Ref(customers)) }),
  where: ({ customerId }) => customerId === undefined || { customerId },
  group: { customerId: 'customerId' },
  show: { invoices: 'count', total: { sum: 'total' } },
})

/** A client such as `of_<uuid>` sees the rows of one customer; all other clients see every row. */
const restricted = plinth({ claims: ({ client }) => ({ customerId: /^of_(.+)$/.exec(client.id)?.[1] }) })

export const tickets = restricted.collection({
  path: '/tickets',
  noun: 'ticket',
  ids: 'uuid',
  body: Type.Object({ customerId: Ref(customers), text: Title }),
  filters: ['customerId'],
  search: ['text'],
  access: ({ claims: { customerId } }) => customerId === undefined || { customerId },
})

export const replies = restricted.collection({
  path: '/replies',
  noun: 'reply',
  ids: 'uuid',
  body: Type.Object({ ticketId: Ref(tickets, { onDelete: 'cascade' }), text: Title }),
  access: { of: 'ticket' },
})

/** The access rule of visits is a condition on the related customer. */
export const visits = restricted.collection({
  path: '/visits',
  noun: 'visit',
  body: Type.Object({ customerId: Type.Optional(Ref(customers, { onDelete: 'setNull' })), text: Title }),
  access: ({ claims: { customerId } }) => customerId === undefined || { customer: { id: customerId } },
})

const others = [countries, customers, lines, tickets, replies, visits]

export const definition = restricted.service({
  resources: [countries, customers, invoices, lines, tickets, replies, visits],
  reports: [byCustomer],
  versions: {
    v1: [invoices, ...others],
    v2: [view(invoices, { rename: { reference: 'number', customerId: 'buyerId' } }), ...others],
  },
})

export const scopes = [
  ...definition.collections.flatMap(({ declaration: { name } }) => [`${name}:read`, `${name}:write`]),
  'webhooks:read webhooks:write reports:read reports:write',
].join(' ')
