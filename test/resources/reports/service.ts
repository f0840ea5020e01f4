import { collection, Day, Decimal, Instant, Line, report, service, Type } from '../../../src/plinth.ts'

export const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    reference: Line(1, 20),
    status: Type.Enum(['draft', 'sent', 'paid']),
    due: Day,
    currency: Type.Optional(Type.Enum(['EUR', 'USD', 'JPY'])),
    total: Decimal(18, 2),
    seats: Type.Optional(Type.Integer()),
    weight: Type.Optional(Type.Number()),
    isOpen: Type.Optional(Type.Boolean()),
    sentAt: Type.Optional(Instant),
    note: Type.Optional(Line(0, 40)),
    pin: Type.Optional(Type.String()),
    tags: Type.Optional(Type.Array(Type.String())),
  }),
  filters: ['status'],
  writeOnly: ['pin'],
})

const period = Type.Object({ from: Day, to: Day })

export const reports = {
  revenue: report(invoices, {
    name: 'revenue',
    title: 'Revenue by month',
    parameters: period,
    where: ({ from, to }) => ({ status: 'paid', due: { from, to } }),
    group: { month: { month: 'due' }, currency: 'currency' },
    show: { total: { sum: 'total' }, count: 'count' },
  }),
  totals: report(invoices, {
    name: 'totals',
    parameters: Type.Object({
      status: Type.Enum(['draft', 'sent', 'paid'], { default: 'paid' }),
      minimum: Type.Optional(Decimal(18, 2)),
      seats: Type.Optional(Type.Integer({ minimum: 1 })),
      since: Type.Optional(Instant),
    }),
    where: ({ status, minimum, seats, since }) => ({
      status,
      ...(minimum !== undefined && { total: { from: minimum } }),
      ...(seats !== undefined && { seats }),
      ...(since !== undefined && { sentAt: { from: since } }),
    }),
    show: {
      sum: { sum: 'total' },
      least: { min: 'total' },
      most: { max: 'total' },
      seats: { sum: 'seats' },
      weight: { sum: 'weight' },
      lightest: { min: 'weight' },
      first: { min: 'due' },
      last: { max: 'sentAt' },
      rows: 'count',
    },
  }),
  parts: report(invoices, {
    name: 'parts',
    group: { day: { day: 'sentAt' }, month: { month: 'sentAt' }, year: { year: 'due' } },
    show: { rows: 'count' },
  }),
  groups: report(invoices, {
    name: 'groups',
    group: { isOpen: 'isOpen', seats: 'seats', weight: 'weight', total: 'total', note: 'note' },
  }),
  named: report(invoices, {
    name: 'named',
    parameters: Type.Object({
      fields: Type.Array(Type.String()),
      sort: Type.String(),
      filter: Type.Object({ seats: Type.Integer() }),
    }),
    where: ({ fields, sort, filter: { seats } }) => ({ reference: { in: [...fields, sort] }, seats }),
  }),
  overdue: report(invoices, {
    name: 'overdue',
    where: () => ({ status: 'sent', due: { before: 'today' } }),
  }),
}

export const definition = service({ resources: [invoices], reports: Object.values(reports) })
export const scopes = 'invoices:read invoices:write reports:read reports:write'
