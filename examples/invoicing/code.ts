import { action, event, hooks, job, refuse, schedule, Title, Type } from 'plinth'
import { customers, invoices } from './data.ts'

export const sent = event(invoices, 'sent', Type.Object({ reference: Type.String() }))

export const remind = job('invoice.remind', {
  input: Type.Object({ id: Type.Integer() }),
  retries: 5,
  run: async ({ id }, { find, fetch, signal }) => {
    const invoice = await find(invoices, id, { expand: ['customer'] })
    if (invoice?.status !== 'sent') return
    const text = `${invoice.reference} was due on ${invoice.due}`
    const body = JSON.stringify({ to: invoice.customer.email, text })
    const response = await fetch('https://mail.example.com/send', { method: 'POST', body, signal })
    if (!response.ok) throw new Error(`The mail service responded with ${response.status}`)
  },
})

export const credit = hooks(invoices, {
  creating: async ({ customerId }, { find, count }) => {
    await find(customers, customerId, { lock: true })
    if ((await count(invoices, { customerId, overdue: true })) >= 3)
      throw refuse('customerId', 'has three overdue invoices')
  },
  changed: (before, after, { emit }) => {
    if (before.status === 'draft' && after.status === 'sent') emit(sent, after, { reference: after.reference })
  },
})

export const send = action(invoices, 'send', {
  input: Type.Object({ message: Type.Optional(Title) }),
  when: { status: 'draft' },
  run: async (invoice, _input, { update, enqueue }) => {
    if (invoice.total === '0.00') throw refuse('total', 'is nothing to pay')
    await update(invoices, invoice.id, { status: 'sent' })
    enqueue(remind, { id: invoice.id }, { after: '14 days' })
  },
})

const workdays = { zone: 'Europe/Berlin', missed: 'once' } as const

export const chase = schedule('chase', '0 8 * * 1-5', workdays, async ({ list, enqueue }) => {
  for await (const { id } of list(invoices, { where: { overdue: true } })) {
    enqueue(remind, { id }, { key: `chase-${id}` })
  }
})
