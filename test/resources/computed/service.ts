import { Type } from 'typebox'
import { service as define } from '../../../src/definition/service.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import { Day, Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'

export const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({ name: Title }),
  computed: { invoiceCount: { count: 'invoices' } },
})

export const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    customerId: Type.Optional(Ref(customers, { onDelete: 'cascade' })),
    title: Title,
    status: Type.Enum(['draft', 'sent', 'paid']),
    due: Type.Optional(Day),
  }),
  computed: {
    overdue: { when: { status: 'sent', due: { before: 'today' } } },
    open: { when: { status: { not: 'paid' } } },
    total: { sum: 'lines.amount', as: Decimal(6, 2) },
    lineCount: { count: 'lines' },
    units: { sum: 'lines.units', as: Type.Integer() },
  },
  filters: ['status', 'overdue', 'total'],
  ranges: ['total'],
  sorts: ['total', 'lineCount'],
})

export const goods = collection({ path: '/goods', noun: 'good', body: Type.Object({ name: Title }) })

export const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({
    invoiceId: Type.Optional(Ref(invoices, { onDelete: 'cascade' })),
    goodId: Type.Optional(Ref(goods, { onDelete: 'cascade' })),
    text: Title,
    amount: Decimal(6, 2),
    units: Type.Optional(Type.Integer()),
  }),
})

export const definition = define({ resources: [customers, invoices, goods, lines] })

const names = ['customers', 'invoices', 'goods', 'lines']
export const scopes = names.map((name) => `${name}:read ${name}:write`).join(' ')
