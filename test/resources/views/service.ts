import { Type } from 'typebox'
import { service } from '../../../src/definition/service.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import { Day, Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { view } from '../../../src/resources/views/view.ts'

export const customers = collection({ path: '/customers', noun: 'customer', body: Type.Object({ name: Title }) })

export const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object(
    {
      reference: Line(1, 20),
      customerId: Ref(customers),
      status: Type.Enum(['draft', 'sent', 'paid']),
      issued: Day,
      due: Type.Optional(Day),
      total: Decimal(12, 2),
      // In v1, `amount` is the name of `total`.
      amount: Type.Integer(),
      currency: Type.Enum(['EUR', 'USD']),
      origin: Line(1, 20),
      remark: Type.Optional(Type.String({ maxLength: 100 })),
      pin: Type.Optional(Line(1, 10)),
      address: Type.Optional(Type.Object({ city: Type.String(), zip: Type.Optional(Type.String()) })),
    },
    {
      examples: [
        {
          ...{ reference: 'A-1', customerId: 1, status: 'draft', issued: '2026-03-01', total: '9.50', amount: 1 },
          ...{ currency: 'EUR', origin: 'web', address: { city: 'Bonn' } },
        },
      ],
    },
  ),
  filters: ['reference', 'customerId', 'status', 'due', 'currency', 'total'],
  ranges: ['due', 'total'],
  search: ['reference', 'remark', 'origin'],
  sorts: ['total', 'reference', 'amount'],
  unique: ['reference', ['customerId', 'currency', 'total']],
  immutable: ['issued', 'origin'],
  writeOnly: ['pin'],
  defaults: { status: 'draft', amount: 0 },
  rules: [
    {
      field: 'due',
      message: 'must not precede the issue',
      holds: ({ issued, due }) => due === undefined || due >= issued,
    },
    {
      field: 'currency',
      message: 'must be EUR for large totals',
      holds: ({ total, currency }) => currency === 'EUR' || Number(total) < 1_000,
    },
  ],
  links: (row) => ({
    self: { href: `/invoices/${row.id}` },
    print: { href: `/print/${row.reference}/${row.currency}` },
  }),
})

export const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), text: Title }),
  filters: ['invoiceId'],
})

export const rename = {
  reference: 'number',
  customerId: 'clientId',
  due: 'payBy',
  total: 'amount',
  issued: 'issuedOn',
  remark: 'note',
  address: 'place',
} as const
export const hide = ['amount', 'currency', 'origin'] as const

export const invoicesV1 = view(invoices, {
  rename,
  hide,
  defaults: { currency: 'EUR', origin: ({ clock }) => `v1 ${clock().getUTCFullYear()}` },
})
export const linesV1 = view(lines, { rename: { invoiceId: 'billId', text: 'label' } })

export const definition = service({
  resources: [customers, invoices, lines],
  versions: { v1: [customers, invoicesV1, linesV1], v2: { resources: [customers, invoices, lines], lists: 'array' } },
})

export const scopes = [
  ...['customers', 'invoices', 'lines'].flatMap((name) => [`${name}:read`, `${name}:write`]),
  'webhooks:read webhooks:write reports:read reports:write',
].join(' ')
