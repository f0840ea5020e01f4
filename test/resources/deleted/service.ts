import { Day, Decimal, Instant, Line, plinth, Ref, Text, Title, Type, view } from '../../../src/plinth.ts'

const { collection, service } = plinth({
  claims: ({ client }) => ({ tenant: /^crm_(\w+)$/.exec(client.id)?.[1] }),
})

const customers = collection({
  path: '/customers',
  noun: 'customer',
  keepDeleted: '30 days',
  ids: 'uuid',
  body: Type.Object({ name: Title, email: Type.Optional(Line(1, 80)), notes: Type.Optional(Text()) }),
  filters: ['name'],
  unique: ['email'],
  hides: { fields: ['notes'], unless: ({ scopes }) => scopes.has('customers:read:full') },
  scopes: { 'customers:read:full': 'See customers with their notes' },
})

const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  keepDeleted: '2 days',
  body: Type.Object({
    reference: Line(1, 20),
    customerId: Ref(customers, { onDelete: 'cascade' }),
    correctsId: Type.Optional(Ref('self', { onDelete: 'setNull' })),
    status: Type.Enum(['draft', 'sent', 'closed']),
    isOpen: Type.Boolean(),
    rate: Type.Optional(Type.Number()),
    amount: Decimal(18, 2),
    due: Type.Optional(Day),
    sentAt: Type.Optional(Instant),
    tags: Type.Optional(Type.Array(Type.String())),
    pin: Type.Optional(Type.String({ pattern: '^[0-9]{4}$' })),
  }),
  writeOnly: ['pin'],
  filters: ['reference', 'customerId'],
  search: ['reference'],
  sorts: ['amount'],
  computed: { lineCount: { count: 'lines' }, total: { sum: 'lines.amount', as: Decimal(12, 2) } },
  links: (row) => ({ self: { href: `/invoices/${row.id}` } }),
})

const lines = collection({
  path: '/lines',
  noun: 'line',
  keepDeleted: '30 days',
  body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), text: Title, amount: Decimal(9, 2) }),
})

const folders = collection({
  path: '/folders',
  noun: 'folder',
  keepDeleted: '30 days',
  body: Type.Object({ name: Title }),
})

/** Each tenant has its own notes. A page has the access rules of its note. */
const notes = collection({
  path: '/notes',
  noun: 'note',
  keepDeleted: '30 days',
  body: Type.Object({
    folderId: Ref(folders, { onDelete: 'cascade' }),
    tenant: Line(1, 40),
    text: Title,
    size: Type.Optional(Type.Integer()),
    isOpen: Type.Optional(Type.Boolean()),
    amount: Type.Optional(Decimal(18, 2)),
    rate: Type.Optional(Type.Number()),
  }),
  filters: ['tenant', 'text'],
  locked: { text: 'Final' },
  access: {
    read: (caller) => ({
      all: [
        { any: [{ tenant: caller.claims.tenant }, { text: { prefix: 'Shared' } }] },
        { any: [{ size: { null: true } }, { size: { before: 100 } }] },
        { any: [{ amount: { null: true } }, { amount: { to: '1000.00' } }] },
        { any: [{ rate: { null: true } }, { rate: { from: 0.5 } }] },
        { isOpen: { not: false } },
      ],
    }),
    write: (caller) => ({ any: [{ tenant: caller.claims.tenant }, { createdBy: caller.id }] }),
  },
})
const pages = collection({
  path: '/pages',
  noun: 'page',
  keepDeleted: '30 days',
  body: Type.Object({ noteId: Ref(notes, { onDelete: 'cascade' }), text: Title }),
  access: { of: 'note' },
})

/** A collection without `keepDeleted`, so deletions are final. */
const remarks = collection({ path: '/remarks', noun: 'remark', body: Type.Object({ text: Title }) })

const resources = [customers, invoices, lines, folders, notes, pages, remarks]
const otherInvoices = view(invoices, {
  rename: { reference: 'number' },
  hide: ['amount'],
  defaults: { amount: '0.00' },
})

export const definition = service({
  resources,
  versions: { v1: resources, v2: [customers, otherInvoices, lines, folders, notes, pages, remarks] },
})
export const scopes = [
  ...definition.collections.flatMap(({ declaration: { name } }) => [`${name}:read`, `${name}:write`]),
  'webhooks:read webhooks:write',
].join(' ')
