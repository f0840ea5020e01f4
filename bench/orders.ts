import { Decimal, Line, plinth, Ref, Title, Type } from 'plinth'

const { collection, service } = plinth({ claims: () => ({ tenant: 'north' }) })

const customers = collection({ path: '/customers', noun: 'customer', body: Type.Object({ name: Title }) })

const body = Type.Object({ tenant: Line(1, 40), total: Decimal(12, 2), customerId: Ref(customers) })
const orders = collection({ path: '/orders', noun: 'order', body, filters: ['tenant'] })

const restricted = Type.Object({ tenant: Line(1, 40), total: Decimal(12, 2), customerId: Type.Integer() })
const restrictedOrders = collection({
  path: '/restricted-orders',
  noun: 'restrictedOrder',
  body: restricted,
  filters: ['tenant'],
  access: ({ claims }) => ({ tenant: claims.tenant }),
})

/** A service for comparing lists: orders with and without an access rule, and customers for expansion. */
export default service({ resources: [customers, orders, restrictedOrders] })
