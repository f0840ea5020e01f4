import { Type } from 'typebox'
import { service } from '../../../src/definition/service.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import { Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'

export const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({ name: Title, notes: Type.Optional(Line(1, 100)) }),
  filters: ['name'],
  hides: { fields: ['notes'], unless: ({ scopes }) => scopes.has('customers:read:full') },
  scopes: { 'customers:read:full': 'See customers with their notes' },
})
export const projects = collection({
  path: '/projects',
  noun: 'project',
  body: Type.Object({ name: Title, parentId: Type.Optional(Ref('self', { onDelete: 'cascade' })) }),
})
export const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    reference: Line(1, 20),
    customerId: Ref(customers),
    payerId: Type.Optional(Ref(customers, { onDelete: 'setNull' })),
    projectId: Type.Optional(Ref(projects, { onDelete: 'setNull' })),
    total: Type.Optional(Decimal(18, 2)),
  }),
  filters: ['customerId', 'reference'],
  sorts: ['reference'],
})
export const lines = collection({
  path: '/line-items',
  noun: 'line',
  body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), text: Title, amount: Type.Integer() }),
  filters: ['amount'],
  sorts: ['amount'],
})
export const remarks = collection({
  path: '/remarks',
  noun: 'remark',
  body: Type.Object({ lineId: Ref(lines, { onDelete: 'cascade' }), text: Title }),
})

export const definition = service({ resources: [customers, projects, invoices, lines, remarks] })
export const scopes = [
  ...definition.collections.flatMap(({ declaration: { name } }) => [`${name}:read`, `${name}:write`]),
  'webhooks:read webhooks:write reports:read reports:write',
].join(' ')
