import { Day, Decimal, Email, Line, plinth, Ref, report, Title, Type } from 'plinth'

export const { collection, service } = plinth({
  users: { fields: Type.Object({ tenant: Line(1, 40) }), roles: ['member', 'auditor'] },
  claims: ({ user, client }) => ({ tenant: user?.tenant ?? client.labels.tenant }),
})

export const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({ tenant: Line(1, 40), name: Title, email: Email }),
  set: { tenant: ({ caller }) => caller.claims.tenant },
  access: (caller) => ({ tenant: caller.claims.tenant }),
  unique: [['tenant', 'email']],
  filters: ['name'],
  search: ['name', 'email'],
})

export const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    reference: Line(1, 20),
    customerId: Ref(customers, { onDelete: 'restrict' }),
    status: Type.Enum(['draft', 'sent', 'paid']),
    due: Day,
    currency: Type.Enum(['EUR', 'USD']),
  }),
  defaults: { status: 'draft', reference: async ({ next }) => `R-${await next('invoices')}` },
  access: {
    read: (caller) => caller.is('auditor') || { customer: { tenant: caller.claims.tenant } },
    write: (caller) => ({ customer: { tenant: caller.claims.tenant } }),
  },
  locked: { status: 'paid' },
  computed: {
    overdue: { when: { status: 'sent', due: { before: 'today' } } },
    total: { sum: 'lines.amount', as: Decimal(12, 2) },
  },
  filters: ['reference', 'status', 'customerId', 'due', 'overdue', 'total'],
  sorts: ['due', 'total'],
  migrate: { renamed: { reference: 'number' }, fill: { currency: 'EUR' } },
})

export const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), text: Title, amount: Decimal(12, 2) }),
  access: { of: 'invoice' },
})

export const revenue = report(invoices, {
  name: 'revenue',
  parameters: Type.Object({ from: Day, to: Day }),
  where: ({ from, to }) => ({ status: 'paid', due: { from, to } }),
  group: { month: { month: 'due' }, currency: 'currency' },
  show: { total: { sum: 'total' } },
})
