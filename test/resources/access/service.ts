import { Day, Decimal, Line, plinth, Ref, Title, Type } from '../../../src/plinth.ts'

const { collection, service } = plinth({
  claims: ({ client }) => ({ tenant: /^[a-z]+_(\w+)$/.exec(client.id)?.[1], isAuditor: client.id === 'auditor' }),
})

export const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({
    tenant: Line(1, 40),
    name: Title,
    phone: Type.Optional(Line(1, 40)),
    level: Type.Optional(Type.Enum(['low', 'high'])),
    credit: Type.Optional(Decimal(12, 2)),
    since: Type.Optional(Day),
  }),
  filters: ['name', 'phone', 'level', 'credit', 'since'],
  access: ({ claims }) => claims.isAuditor || { tenant: claims.tenant },
})
export const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    customerId: Ref(customers),
    payerId: Type.Optional(Ref(customers, { onDelete: 'setNull' })),
    status: Type.Enum(['draft', 'sent']),
  }),
  filters: ['status', 'customerId'],
  access: {
    read: ({ claims }) => claims.isAuditor || { customer: { tenant: claims.tenant } },
    write: ({ claims }) => ({ customer: { tenant: claims.tenant }, status: 'draft' }),
  },
})
export const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), text: Title }),
  filters: ['text'],
  access: { of: 'invoice' },
})
export const remarks = collection({
  path: '/remarks',
  noun: 'remark',
  body: Type.Object({ lineId: Type.Optional(Ref(lines, { onDelete: 'cascade' })), text: Title }),
  access: { of: 'line' },
})
/** Payments have no access rules. */
export const payments = collection({
  path: '/payments',
  noun: 'payment',
  body: Type.Object({ invoiceId: Ref(invoices), amount: Decimal(12, 2) }),
})
export const memos = collection({
  path: '/memos',
  noun: 'memo',
  body: Type.Object({ customerId: Ref(customers), text: Title }),
  access: ({ id }) => ({ createdBy: id }),
})

export const definition = service({ resources: [customers, invoices, lines, remarks, payments, memos] })
export const scopes = Object.keys(definition.scopes).join(' ')
