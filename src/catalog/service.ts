import { service } from '../definition/service.ts'
import { books } from './books.ts'
import { inventory } from './inventory.ts'
import { products } from './products.ts'
import { users } from './users.ts'

const resources = [users, products, books]

/** The service that is served when no other definition is given; declared like any other service. */
export const builtIn = service({
  title: 'Plinth',
  description:
    'Users, products and books, reports made in the background, signed webhooks, and the tokens that open them.',
  license: { name: 'MIT', identifier: 'MIT' },
  resources,
  // Clients of the contract's paths may send extra parameters, such as one that defeats caches.
  versions: { v1: { resources, unknownParameters: 'ignore' }, v2: resources },
  reports: [inventory],
})
