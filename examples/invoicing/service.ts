import { view } from 'plinth'
import * as code from './code.ts'
import { customers, invoices, lines, revenue, service } from './data.ts'

const invoicesV1 = view(invoices, {
  rename: { reference: 'number' },
  hide: ['currency'],
  defaults: { currency: 'EUR' },
})

export default service({
  resources: [customers, invoices, lines],
  reports: [revenue],
  code,
  versions: { v1: [customers, invoicesV1, lines], v2: [customers, invoices, lines] },
})
